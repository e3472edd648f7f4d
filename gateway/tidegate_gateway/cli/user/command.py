"""The command `tidegate user forget-sealed`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import DEV_DATA, DataOfCluster, Json, LogThatExists, Yes

app = typer.Typer(help="Users of a cluster.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def user() -> None:
    """Keep `forget-sealed` a subcommand: Typer drops the name of an only command."""


@app.command("forget-sealed")
def forget_sealed(
    secret_key: Annotated[
        list[Path] | None,
        typer.Option(
            "--secret-key",
            metavar="FILE",
            help="Holds a key of the gateways, which stays in use; may be repeated.",
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="No key is left: remove all that are sealed.")
    ] = False,
    yes: Yes = False,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """Remove the SCRAM credentials that are sealed with a lost key, so that gateways start again.

    These users need new passwords. No gateway has to run. The exit code is 1 if something was not
    done.
    """
    from ..existing_cluster import ClusterOptions
    from .forgetting import ForgetOptions, run_forget

    options = ForgetOptions(tuple(secret_key or ()), every, yes)
    raise typer.Exit(run_forget(ClusterOptions(data, log), options, as_json=json))
