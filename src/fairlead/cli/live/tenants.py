"""`fairlead tenants`: quotas, weights, and what each holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fairlead.cli.live.connect import Reach, talks
from fairlead.cli.render import Output, OutputOption, emit, grid, say
from fairlead.model.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fairlead.client import Tenant

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="The tenant's name.")]
_UNLIMITED = ("none", "unlimited")


def register(app: typer.Typer, panel: str) -> None:
    group = typer.Typer(invoke_without_command=True, rich_markup_mode=None, callback=tenants)
    group.command("set")(set_tenant)
    group.command("remove")(remove)
    app.add_typer(group, name="tenants", rich_help_panel=panel)


@talks
def tenants(output: OutputOption = Output.table, *, context: typer.Context, reach: Reach) -> None:
    """List tenants with their quotas and what they hold; change them."""
    if context.invoked_subcommand is not None:
        return
    from fairlead.cli.live.words import plain

    with reach.client() as client:
        found = client.tenants()
    emit(plain(found), output, lambda: _table(found))


def _table(found: tuple[Tenant, ...]) -> RenderableType:
    from fairlead.cli.live.words import counts, gpus
    from fairlead.record.units import digits

    if not found:
        return "no tenants"
    rows = [
        [
            tenant.name,
            "no limit" if tenant.quota_gpus is None else str(tenant.quota_gpus),
            gpus(tenant.gpus_used),
            gpus(tenant.weight),
            digits(tenant.usage_gpu_s / 3600),
            counts(tenant.jobs),
        ]
        for tenant in found
    ]
    heads = ["tenant", "quota", "used", "weight", "GPU-hours", "jobs"]
    return grid(heads, rows, numbers=("quota", "used", "weight", "GPU-hours"))


@talks
def set_tenant(
    name: NameArgument,
    quota: Annotated[
        str | None, typer.Option("--quota", metavar="N", help="The most GPUs it may hold; none for no limit.")
    ] = None,
    weight: Annotated[
        float | None, typer.Option("--weight", metavar="W", help="Its share in fair-share policies; 1 is usual.")
    ] = None,
    *,
    reach: Reach,
) -> None:
    """Add a tenant, or change its quota or weight; what is not said stays."""
    gpus = _quota(quota)
    with reach.client() as client:
        known = {one.name: one for one in client.tenants()}.get(name)
        if known is not None:
            gpus = gpus if quota is not None else known.quota_gpus
            weight = weight if weight is not None else known.weight
        client.put_tenant(name, gpus, 1.0 if weight is None else weight)
    say(f"tenant {name}: {'no limit' if gpus is None else f'at most {gpus} GPUs'}")


def _quota(text: str | None) -> int | None:
    if text is None or text.lower() in _UNLIMITED:
        return None
    if not (text.isascii() and text.isdigit()):
        raise InputError(
            "this is no quota", file="--quota", value=text, accepts="a number of GPUs, or none for no limit"
        )
    return int(text)


@talks
def remove(name: NameArgument, *, reach: Reach) -> None:
    """Forget a tenant's quota and weight."""
    with reach.client() as client:
        client.remove_tenant(name)
    say(f"tenant {name} is removed")
