"""The commands `tidegate transaction list`, `describe` and `abort`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..options import DEV_DATA, DataOfCluster, Json, LogThatExists, Yes

app = typer.Typer(help="Transactions of producers.", no_args_is_help=True, rich_markup_mode=None)

TransactionalId = Annotated[str, typer.Argument(metavar="ID", help="A transactional.id.")]


@app.command("list")
def list_transactions(
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            metavar="STATE",
            help="Empty, Ongoing, CompleteCommit or CompleteAbort; may be repeated.",
        ),
    ] = None,
    longer_than: Annotated[
        int | None,
        typer.Option(min=0, metavar="SECONDS", help="Only transactions open for longer."),
    ] = None,
    topic: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only transactions open in this topic.")
    ] = None,
    partition: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only in this one of the topic.")
    ] = None,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """Show the transactional ids of a cluster.

    The longest open transactions come first.
    """
    from ..existing_cluster import ClusterOptions
    from .commands import ListOptions, run_list

    options = ListOptions(tuple(state or ()), longer_than, topic, partition)
    raise typer.Exit(run_list(ClusterOptions(data, log), options, as_json=json))


@app.command("describe")
def describe_transaction(
    transactional_id: TransactionalId,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """Show one transactional id: producer, partitions and offsets."""
    from ..existing_cluster import ClusterOptions
    from .commands import run_describe

    raise typer.Exit(run_describe(ClusterOptions(data, log), transactional_id, as_json=json))


@app.command("abort")
def abort_transaction(
    transactional_id: TransactionalId,
    yes: Yes = False,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """Abort the open transaction of an id, and fence its producer.

    Gateways may run meanwhile. The exit code is 1 if no transaction was aborted.
    """
    from ..existing_cluster import ClusterOptions
    from .commands import run_abort

    raise typer.Exit(run_abort(ClusterOptions(data, log), transactional_id, yes=yes, as_json=json))
