"""The dashboard's files: read once, kept in memory, and served with a policy that lets a browser load nothing else.

They hold nothing that is anybody's, so they need no token; whoever looks at them signs in from there.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fairlead.server.api.problems import nothing_here

PREFIX = "/ui/"
_PLOTLY, _STYLES = "plotly.min.js", "js/plotly-styles.js"
#: what a page may do: run our scripts and no other, ask us and nobody else, be shown in nobody's frame
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "frame-src 'self'",  # reports of the studio, each under a policy of its own
        "manifest-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    # kept, but asked for each time whether it is still the one: an upgrade is seen at once
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}
_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Asset:
    body: bytes
    packed: bytes
    etag: str
    media_type: str


def _asset(name: str, body: bytes) -> Asset:
    etag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
    return Asset(body, gzip.compress(body, 6, mtime=0), etag, _TYPES[name.rpartition(".")[2]])


@cache
def assets() -> Mapping[str, Asset]:
    """Every file of the folder by its path in it."""
    found: dict[str, Asset] = {}

    def walk(folder: Traversable, before: str) -> None:
        for entry in folder.iterdir():
            name = f"{before}{entry.name}"
            if entry.is_dir():
                walk(entry, f"{name}/")
            elif name.rpartition(".")[2] in _TYPES:
                found[name] = _asset(name, entry.read_bytes())

    walk(files("fairlead.server").joinpath("dashboard"), "")
    found[_STYLES] = _asset(_STYLES, _plotly_styles())
    return found


def _plotly_styles() -> bytes:
    """A module with the names of the style sheets that plotly.js writes into a page as it is loaded (those of its maps). It leaves out
    one that is there already, so a page that has elements with these names is spared what the policy would forbid."""
    names = sorted({one.decode() for one in re.findall(rb'getElementById\("([0-9a-f]{64})"\)', _plotly_source())})
    return f"// Made when the scheduler starts.\nexport default {json.dumps(names)};\n".encode()


def _plotly_source() -> bytes:
    return files("plotly").joinpath("package_data", _PLOTLY).read_bytes()


@cache
def plotly() -> Asset:
    """The library as its Python package carries it; packing its megabytes takes a moment, once."""
    return _asset(_PLOTLY, _plotly_source())


async def index(request: Request) -> Response:
    return _answer(request, assets()["index.html"])


async def file(request: Request) -> Response:
    name = str(request.path_params["path"])
    if name == _PLOTLY:
        return _answer(request, await asyncio.to_thread(plotly))
    found = assets().get(name)
    return nothing_here() if found is None else _answer(request, found)


def _answer(request: Request, asset: Asset) -> Response:
    headers = {**_HEADERS, "ETag": asset.etag}
    if request.headers.get("if-none-match") == asset.etag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(asset.packed, headers=headers | {"Content-Encoding": "gzip"}, media_type=asset.media_type)
    return Response(asset.body, headers=headers, media_type=asset.media_type)


ROUTES = (
    Route("/", index, include_in_schema=False),
    Route(PREFIX + "{path:path}", file, include_in_schema=False),
)
