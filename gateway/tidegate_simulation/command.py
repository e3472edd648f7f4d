"""The command line of this package, plugged into `tidegate`."""

from __future__ import annotations

import typer

app = typer.Typer(invoke_without_command=True, rich_markup_mode=None)


@app.callback()
def main() -> None:
    """Not there yet."""
    raise typer.Exit(2)
