"""The commands of `tidegate topic`; here `repair`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import Json, LogThatExists, StoreThatExists, Yes
from . import admin_command, records_command

app = typer.Typer(help="Topics and their records.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(admin_command.app)
app.add_typer(records_command.app)


@app.command("repair")
def repair_topic(
    topic: Annotated[str, typer.Argument(help="Its name.")],
    partition: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only this one.")
    ] = None,
    data: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the gateway's data.")] = Path(
        "tidegate-data"
    ),
    object_store: StoreThatExists = None,
    log: LogThatExists = None,
    skip: Annotated[
        bool, typer.Option("--skip", help="Remove unreadable records from the topic.")
    ] = False,
    proof_seconds: Annotated[
        float,
        typer.Option(
            min=1, metavar="N", help="With --skip: look again and again for so long, to be sure."
        ),
    ] = 180.0,
    even_if_many: Annotated[
        bool,
        typer.Option("--even-if-many", help="With --skip: however many objects are lost."),
    ] = False,
    bring_back: Annotated[
        bool,
        typer.Option("--bring-back", help="Bring skipped records back that can be read again."),
    ] = False,
    even_if_compacted: Annotated[
        bool,
        typer.Option(
            "--even-if-compacted",
            help="With --bring-back: although an old value of a key may come back.",
        ),
    ] = False,
    give_up: Annotated[
        bool, typer.Option("--give-up", help="Keep skipped records no longer, for good.")
    ] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Read a topic, show which records cannot be read, and with --skip remove them from it.

    With --skip the command first proves that the records are lost and that the store works.  It
    keeps the places of the records: once their objects exist again, --bring-back reads the records
    and puts them back in their places.

    Gateways may run meanwhile. The exit code is 1 if records cannot be read, 2 if the command
    cannot tell.
    """
    from .repair import TopicRepairOptions, run_topic_repair

    options = TopicRepairOptions(
        topic,
        partition,
        data,
        object_store,
        log,
        skip,
        yes,
        proof_seconds,
        even_if_many,
        bring_back,
        give_up,
        even_if_compacted,
    )
    raise typer.Exit(run_topic_repair(options, as_json=json))
