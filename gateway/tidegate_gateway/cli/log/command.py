"""The commands `tidegate log ...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import Json, NeededLog, NeededStore

app = typer.Typer(help="Metadata logs.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def verify(
    url: Annotated[str, typer.Argument(help="Of a log that is new and empty; it gets filled.")],
    json: Json = False,
) -> None:
    """Run the public contract of metadata logs on a new, empty log."""
    from .verify import run_verify

    raise typer.Exit(run_verify(url, as_json=json))


@app.command("serve")
def serve_log(
    url: Annotated[str, typer.Argument(help="Of the log to serve.")],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Port 0: any that is free.")
    ] = "127.0.0.1:9645",
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Holds the token that clients must bear.")
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse what would write.")
    ] = False,
    json: Json = False,
) -> None:
    """Serve a metadata log over HTTP, so that gateways can open it as http://HOST:PORT."""
    from .serve import LogServeOptions, run_log_serve

    options = LogServeOptions(url, listen, token_file, read_only)
    raise typer.Exit(run_log_serve(options, as_json=json))


@app.command()
def backup(log: NeededLog, object_store: NeededStore, json: Json = False) -> None:
    """Copy a metadata log to the object store now; gateways do so by themselves."""
    from .backup import run_backup

    raise typer.Exit(run_backup(log, object_store, as_json=json))


@app.command()
def restore(
    from_store: Annotated[
        str, typer.Option("--from", metavar="URL", help="The object store with the backup.")
    ],
    log: Annotated[
        str, typer.Option("--log", metavar="URL", help="The log to be made; new and empty.")
    ],
    object_store: Annotated[
        str, typer.Option(metavar="URL", help="The one with the records, if it is another.")
    ] = "",
    cluster: Annotated[
        str, typer.Option(metavar="ID", help="Refuse the backup of any other cluster.")
    ] = "",
    while_gateways_run: Annotated[
        bool,
        typer.Option(
            "--while-gateways-run",
            help="Go on though gateways answer: those that use this prefix end.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Make a new metadata log from the newest backup, and salvage what was written since.

    Stop all gateways first: the new log ends those that run, and lacks what they still acknowledge.
    Where one answers, nothing is done. For a trial restore from a copy of the whole prefix.
    """
    from .restore import RestoreOptions, run_restore

    options = RestoreOptions(from_store, log, object_store, cluster, while_gateways_run)
    raise typer.Exit(run_restore(options, as_json=json))


@app.command()
def move(
    log: Annotated[str, typer.Argument(metavar="LOG", help="URL of the log to move.")],
    to: Annotated[
        str, typer.Argument(metavar="NEW", help="URL of the new log, which must be empty.")
    ] = "",
    cancel: Annotated[
        bool, typer.Option("--cancel", help="End a move that is under way; the log stays.")
    ] = False,
    timeout: Annotated[
        int, typer.Option(min=1, metavar="SECONDS", help="For gateways to say that they can go.")
    ] = 60,
    stall: Annotated[
        int, typer.Option(min=1, metavar="SECONDS", help="That writers may have to wait, at most.")
    ] = 3,
    object_store: Annotated[
        str,
        typer.Option(metavar="URL", help="The cluster's: a log that a restore replaced stays."),
    ] = "",
    json: Json = False,
) -> None:
    """Move the metadata log of a live cluster to another log; its gateways follow by themselves.

    All gateways must be of a release that knows this command. A password in NEW is not told to
    them: one that needs it, or another URL than NEW, gets its whole URL beforehand as
    metadata.log.next. Run it again if it was cut short.
    """
    from .move import LogMoveOptions, run_log_move

    options = LogMoveOptions(log, to, cancel, timeout, stall, object_store)
    raise typer.Exit(run_log_move(options, as_json=json))


@app.command()
def repair(
    url: Annotated[str, typer.Argument(help="Of the log to look at.")],
    object_store: Annotated[
        str, typer.Option(metavar="URL", help="The cluster's; its backups help.")
    ] = "",
    to: Annotated[
        str, typer.Option(metavar="URL", help="A new log; a SQLite log is put in place without.")
    ] = "",
    save: Annotated[
        str, typer.Option(metavar="DIR", help="Where to save all that can be read.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Do it, instead of showing it.")] = False,
    json: Json = False,
) -> None:
    """Show what is damaged in a metadata log; with --yes, go back to the last good position."""
    from .repair import RepairOptions, run_repair

    raise typer.Exit(run_repair(RepairOptions(url, object_store, to, save, yes), as_json=json))
