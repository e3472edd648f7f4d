"""The command `tidegate debug bundle`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import Admins, CaFile, TokenFile

app = typer.Typer(help="What helps to find a fault.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def debug() -> None:
    """Keep `bundle` a subcommand: Typer drops the name of an only command."""


@app.command("bundle")
def bundle(
    admin: Admins = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    out: Annotated[
        Path, typer.Option(metavar="FILE", help="Where to write; it must not exist yet.")
    ] = Path("tidegate-debug.tar.gz"),
) -> None:
    """Write what gateways know of themselves into one file, without secrets.

    Status, metrics, settings, tasks, and the newest log lines. The exit code is 1 if a gateway did
    not answer.
    """
    from ..admin_reader import DEFAULT_ADMIN, Access
    from .bundle import run_bundle

    raise typer.Exit(run_bundle(admin or [DEFAULT_ADMIN], Access(token_file, ca_file), out))
