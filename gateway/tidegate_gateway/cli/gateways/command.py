"""The commands `tidegate gateway list`, `drain`, `undrain` and `version`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import DEV_DATA, DataOfCluster, Json, LogThatExists, Yes

app = typer.Typer(help="Gateways of a cluster.", no_args_is_help=True, rich_markup_mode=None)

NodeId = Annotated[int, typer.Argument(metavar="ID", help="Its node.id.")]


@app.command("list")
def list_gateways(
    data: DataOfCluster = DEV_DATA, log: LogThatExists = None, json: Json = False
) -> None:
    """Show the gateways of a cluster, and which of them drain."""
    from ..existing_cluster import ClusterOptions
    from .gateways import run_list

    raise typer.Exit(run_list(ClusterOptions(data, log), as_json=json))


@app.command("drain")
def drain_gateway(
    node_id: NodeId,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    stop: Annotated[
        bool, typer.Option("--stop", help="Also end its process, once it is drained.")
    ] = False,
    timeout: Annotated[
        int, typer.Option(min=0, metavar="SECONDS", help="Limit of the wait for it; 0: no wait.")
    ] = 60,
) -> None:
    """Send a gateway's clients and consumer groups to the others, so that it may be stopped.

    The exit code is 1 if it is not drained in time.
    """
    from ..existing_cluster import ClusterOptions
    from .gateways import DrainOptions, run_drain

    raise typer.Exit(run_drain(ClusterOptions(data, log), DrainOptions(node_id, stop, timeout)))


@app.command("undrain")
def undrain_gateway(
    node_id: NodeId, data: DataOfCluster = DEV_DATA, log: LogThatExists = None
) -> None:
    """Let a gateway that drains take new work again."""
    from ..existing_cluster import ClusterOptions
    from .gateways import run_undrain

    raise typer.Exit(run_undrain(ClusterOptions(data, log), node_id))


@app.command("version")
def version_of_cluster(
    raise_to: Annotated[
        int | None,
        typer.Option("--raise", metavar="N", help="Raise it to this one. There is no way back."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say whether it can be raised.")
    ] = False,
    yes: Yes = False,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """Show which tidegate.metadata.version is on, or raise it when an upgrade is over.

    The exit code is 1 if it cannot be raised.
    """
    from ..existing_cluster import ClusterOptions
    from .cluster_version import VersionOptions, run_version

    raise typer.Exit(
        run_version(ClusterOptions(data, log), VersionOptions(raise_to, dry_run, yes, json))
    )
