"""The commands `tidegate log ...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import Json, NeededLog, NeededStore

app = typer.Typer(help="Metadata logs.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def verify(
    url: Annotated[str, typer.Argument(help="The URL of a new, empty log; the command fills it.")],
    json: Json = False,
) -> None:
    """Run the public contract of metadata logs on a new, empty log."""
    from .verify import run_verify

    raise typer.Exit(run_verify(url, as_json=json))


@app.command("serve")
def serve_log(
    url: Annotated[str, typer.Argument(help="The URL of the log to serve.")],
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Port 0: any free port.")
    ] = "127.0.0.1:9645",
    token_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Holds the token that clients must send.")
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Refuse requests that write.")
    ] = False,
    keystore: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Serve over TLS: key and certificate in PEM, PKCS12 or JKS."
        ),
    ] = None,
    keystore_password_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Holds the keystore's password.")
    ] = None,
    json: Json = False,
) -> None:
    """Serve a metadata log over HTTP, so that gateways can open it as http://HOST:PORT."""
    from .serve import LogServeOptions, run_log_serve

    options = LogServeOptions(url, listen, token_file, read_only, keystore, keystore_password_file)
    raise typer.Exit(run_log_serve(options, as_json=json))


@app.command()
def backup(log: NeededLog, object_store: NeededStore, json: Json = False) -> None:
    """Copy a metadata log to the object store now; running gateways also do so by themselves."""
    from .backup import run_backup

    raise typer.Exit(run_backup(log, object_store, as_json=json))


@app.command()
def restore(
    from_store: Annotated[
        str, typer.Option("--from", metavar="URL", help="The object store with the backup.")
    ],
    log: Annotated[
        str, typer.Option("--log", metavar="URL", help="The log to make; new and empty.")
    ],
    object_store: Annotated[
        str, typer.Option(metavar="URL", help="The store with the records, if it is another.")
    ] = "",
    cluster: Annotated[
        str, typer.Option(metavar="ID", help="Refuse the backup of any other cluster.")
    ] = "",
    while_gateways_run: Annotated[
        bool,
        typer.Option(
            "--while-gateways-run",
            help="Restore even if gateways answer: those that use this prefix end.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Make a new metadata log from the newest backup, and salvage records written since.

    Stop all gateways first: the new log ends gateways that still run, and lacks the records that
    they acknowledge until then.  If a gateway answers, the command does nothing.  To try a restore
    while the cluster runs, copy everything below the store's prefix elsewhere, and restore from the
    copy with --while-gateways-run.
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
        bool, typer.Option("--cancel", help="Cancel a move that is under way; the log stays.")
    ] = False,
    timeout: Annotated[
        int, typer.Option(min=1, metavar="SECONDS", help="To wait until all gateways are ready.")
    ] = 60,
    stall: Annotated[
        int, typer.Option(min=1, metavar="SECONDS", help="The longest time that writers wait.")
    ] = 3,
    object_store: Annotated[
        str,
        typer.Option(metavar="URL", help="The cluster's; shows if a restore replaced LOG."),
    ] = "",
    json: Json = False,
) -> None:
    """Move the metadata log of a live cluster to another log; its gateways follow by themselves.

    All gateways must be of a release that knows this command.  A password in NEW is not passed on
    to them.  If a gateway needs it, or another URL than NEW, set its metadata.log.next to the whole
    URL beforehand.  If the command is interrupted, run it again.
    """
    from .move import LogMoveOptions, run_log_move

    options = LogMoveOptions(log, to, cancel, timeout, stall, object_store)
    raise typer.Exit(run_log_move(options, as_json=json))


@app.command()
def repair(
    url: Annotated[str, typer.Argument(help="The URL of the log to check.")],
    object_store: Annotated[
        str, typer.Option(metavar="URL", help="The cluster's; it may hold backups.")
    ] = "",
    to: Annotated[
        str, typer.Option(metavar="URL", help="A new log. Without it a SQLite log is replaced.")
    ] = "",
    save: Annotated[
        str, typer.Option(metavar="DIR", help="Folder for a copy of all readable entries.")
    ] = "",
    yes: Annotated[bool, typer.Option("--yes", help="Repair, not only show the damage.")] = False,
    json: Json = False,
) -> None:
    """Show the damage of a metadata log; with --yes, go back to the last good position."""
    from .repair import RepairOptions, run_repair

    raise typer.Exit(run_repair(RepairOptions(url, object_store, to, save, yes), as_json=json))
