"""How a command finds its scheduler: flags, environment, files; and where none of them says, the one that runs here."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from fairlead.client import Client
    from fairlead.server.config import Config

ServerOption = Annotated[
    str | None, typer.Option("--server", metavar="URL", help="Where the scheduler is, if not on this machine.")
]
TokenFileOption = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="Where your token is, if not in its usual place.")
]
_OPTIONS = {"server": ServerOption, "token_file": TokenFileOption}


class Reach:
    """A command's way to its scheduler: `with reach.client() as client`."""

    def __init__(self, server: str | None, token_file: Path | None) -> None:
        self._flags = {"server": server, "token_file": token_file}

    @contextmanager
    def client(self) -> Iterator[Client]:
        from fairlead.client import Client
        from fairlead.client.connection import Token, token_from
        from fairlead.server.config import load_config

        config = load_config(self._flags)
        named = config.sources.get("token_file")
        variable = os.environ.get("FAIRLEAD_TOKEN")
        if variable and named != "--token-file":
            token = Token(variable.strip(), "FAIRLEAD_TOKEN")
        else:
            token = token_from(config.token_path, must_exist=named is not None)
        with Client(_url(config), token, allow_public=config.allow_public, ca=_trusted(config)) as client:
            yield client


def _url(config: Config) -> str:
    """One that runs here may listen on another port than the usual one: it has left a note."""
    if not {"server", "bind", "port"} & config.sources.keys():
        from fairlead.cli.live.pid_file import last

        found = last(config.state_dir)
        if found is not None:  # one that was killed is missed where it was, not somewhere else
            return found.url
    return config.server_url


def _trusted(config: Config) -> Path | None:
    """A scheduler of our own has a certificate that need not be anybody else's."""
    return config.tls_cert if config.server is None else None


def talks(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command declare `reach: Reach` as its last parameter, and have --server and --token-file.

    In a group, what was given before the subcommand counts for it too: `fairlead nodes --server URL drain node-1`.
    """
    shown = [
        p for p in inspect.signature(command, eval_str=True).parameters.values() if p.name not in ("reach", "context")
    ]
    takes_context = "context" in inspect.signature(command).parameters

    def wrapped(context: typer.Context, **kwargs: Any) -> None:
        given = {name: kwargs.pop(name) for name in _OPTIONS}
        outer = context.parent.obj if context.parent is not None else None
        given = {name: value or (outer or {}).get(name) for name, value in given.items()}
        context.obj = given
        if takes_context:
            kwargs["context"] = context
        command(**kwargs, reach=Reach(**given))

    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter("context", keyword, annotation=typer.Context)]
    parameters += [p.replace(kind=keyword) for p in shown]
    parameters += [inspect.Parameter(name, keyword, default=None, annotation=kind) for name, kind in _OPTIONS.items()]
    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return wrapped
