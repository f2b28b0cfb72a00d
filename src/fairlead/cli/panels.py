"""The help's groups of commands, in plain text: drawing them with rich would take longer than all the rest of --help."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

LIVE = "Live scheduler"
SIMULATION = "Simulation"
TRACES = "Traces"
#: what a newcomer needs first
FIRST = ("up", "submit", "jobs", "explain", "logs", "cancel", "suspend", "resume", "top", "nodes", "sim", "policies")


class Panels(TyperGroup):
    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Each `rich_help_panel` under its own heading."""
        panels: dict[str, list[tuple[str, Any]]] = {LIVE: [], SIMULATION: [], TRACES: []}
        # those that have commands of their own come last in the list, whatever they were added as
        for name in sorted(
            self.list_commands(ctx), key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST)
        ):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                panels.setdefault(getattr(command, "rich_help_panel", None) or "Commands", []).append((name, command))
        wide = max((len(name) for rows in panels.values() for name, _ in rows), default=0)
        for panel, rows in panels.items():
            if not rows:
                continue
            with formatter.section(panel):
                limit = formatter.width - 6 - wide
                formatter.write_dl([(name.ljust(wide), command.get_short_help_str(limit)) for name, command in rows])
