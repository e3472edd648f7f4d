"""The command `tidegate audit verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import Json

app = typer.Typer(
    help="Audit logs: what clients did, and whether a log of it was changed.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@app.callback()
def audit() -> None:
    """Keep `verify` a command of its own, since more will follow."""


@app.command("verify")
def verify_audit(
    files: Annotated[list[Path], typer.Argument(help="Files of one gateway, the oldest first.")],
    json: Json = False,
) -> None:
    """Check that no line of an audit log was changed, removed, added or moved.

    The end may have been cut off: compare the last hash with one that was noted elsewhere. The exit
    code is 1 if a line is wrong, 2 if a file cannot be read.
    """
    from .verify import run_audit_verify

    raise typer.Exit(run_audit_verify(files, as_json=json))
