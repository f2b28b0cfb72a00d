"""The REST API of the live scheduler. docs/api.md has its endpoints; `/v1/openapi.json` describes them for programs."""

from fairlead.server.api.app import create_app, end_streams

__all__ = ["create_app", "end_streams"]
