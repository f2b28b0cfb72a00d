"""The `fairlead` command: its groups, and what becomes of errors.

Nothing heavy is imported here or at the top of a command's module: `--help` and completion must answer at once.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Annotated, NoReturn

import typer

from fairlead import __version__
from fairlead.cli.panels import Panels
from fairlead.model.errors import InputError

FAILED, USAGE, INTERRUPTED = 1, 2, 130

#: each has `register(app)`; those that an installation lacks are left out
COMMANDS = ("live", "sim", "listing", "demo", "rehearse", "reproduce", "bench", "trace")
#: set to anything, an unexpected error shows where it came from
TRACEBACK = "FAIRLEAD_TRACEBACK"


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"fairlead {__version__}")
        raise typer.Exit


def build() -> typer.Typer:
    # plain help: importing rich would take longer than all the rest of --help
    app = typer.Typer(
        name="fairlead",
        cls=Panels,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback()
    def fairlead(
        version: Annotated[
            bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
        ] = False,
    ) -> None:
        """Schedulers for deep-learning GPU clusters: simulate before you switch, explain every decision."""

    for name in COMMANDS:
        module = f"fairlead.cli.{name}"
        if find_spec(module) is not None:
            import_module(module).register(app)
    return app


def main() -> NoReturn:
    """Run the command line and exit: 0 done, 1 failed, 2 usage or bad input, 130 interrupted."""
    try:
        code = build()(standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        _leave_quietly()
    except KeyboardInterrupt:
        _leave(INTERRUPTED)
    except SystemExit as ended:
        _leave(ended.code if isinstance(ended.code, int) else FAILED)
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        _leave(_report(error))
    _leave(code if isinstance(code, int) else 0)


def _report(error: Exception) -> int:
    """Say what went wrong, in one line where a person caused it; the exit code."""
    if isinstance(error, InputError):
        _complain(str(error))
        return USAGE
    client = sys.modules.get("fairlead.client.errors")  # a command that has not imported it can't have raised it
    if client is not None and isinstance(error, client.ClientError):
        _complain(str(error))
        return USAGE if getattr(error, "is_mistake", False) else FAILED
    if hasattr(error, "format_message"):  # wrong arguments, as the parser found them
        context, text = getattr(error, "ctx", None), str(error.format_message())
        if text.startswith("Usage:"):  # a group without a command: its help is the answer
            print(text, file=sys.stderr)
            return USAGE
        hint = f" (see '{context.command_path} --help')" if context is not None else ""
        _complain(text.rstrip(".") + hint)
        return USAGE
    if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError | NotADirectoryError):
        _complain(f"{error.filename}: {error.strerror}")
        return USAGE
    if isinstance(error, typer.Abort):
        return INTERRUPTED
    text = str(error).strip() or "no more is known"
    _complain(f"failed: {type(error).__name__}: {text}\n({TRACEBACK}=1 shows where)")
    return FAILED


def _complain(text: str) -> None:
    print(f"fairlead: {text}", file=sys.stderr)


def _leave_quietly() -> NoReturn:
    """Whoever read our output has gone: nothing is wrong, and there is nobody to tell."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    _leave(FAILED)


def _leave(code: int) -> NoReturn:
    sys.exit(code)
