"""The commands of `tidegate group`."""

from __future__ import annotations

from typing import Annotated

import typer

from ..kafka.options import Bootstrap, ClientFile, GroupName, KafkaPlace
from ..options import Json, Yes

app = typer.Typer(
    help="Consumer groups and their offsets.", no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_groups(
    bootstrap: Bootstrap = None, properties: ClientFile = None, json: Json = False
) -> None:
    """Show the groups of a cluster."""
    from .looks import run_list

    raise typer.Exit(run_list(KafkaPlace(bootstrap, properties), as_json=json))


@app.command("describe")
def describe_group(
    group: GroupName,
    bootstrap: Bootstrap = None,
    properties: ClientFile = None,
    json: Json = False,
) -> None:
    """Show the members of a group, and what they read; the exit code is 1 if there is none."""
    from .looks import run_describe

    raise typer.Exit(run_describe(KafkaPlace(bootstrap, properties), group, as_json=json))


@app.command("lag")
def show_lag(
    group: GroupName,
    bootstrap: Bootstrap = None,
    properties: ClientFile = None,
    json: Json = False,
) -> None:
    """Show how far a group is behind; the exit code is 1 if there is no such group."""
    from .looks import run_lag

    raise typer.Exit(run_lag(KafkaPlace(bootstrap, properties), group, as_json=json))


@app.command("seek")
def seek_group(
    group: GroupName,
    targets: Annotated[
        list[str],
        typer.Argument(metavar="TOPIC[:PARTITION]...", help="What to change the offsets of."),
    ],
    to: Annotated[
        str,
        typer.Option(
            metavar="PLACE",
            help="earliest, latest, an offset, a time such as 2026-01-31T12:00:00Z, @MILLISECONDS,"
            " +N or -N.",
        ),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")
    ] = False,
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    properties: ClientFile = None,
    json: Json = False,
) -> None:
    """Set the offsets from which a group continues; it must have no members meanwhile.

    +N and -N count from the committed offset.  An offset outside of a partition becomes its first
    offset or its end offset.  The exit code is 1 if nothing was changed.
    """
    from .changes import SeekOptions, run_seek

    options = SeekOptions(group, tuple(targets), to, dry_run, yes)
    raise typer.Exit(run_seek(KafkaPlace(bootstrap, properties), options, as_json=json))


@app.command("delete")
def delete_groups(
    groups: Annotated[list[str], typer.Argument(metavar="GROUP...", help="Their group.ids.")],
    yes: Yes = False,
    bootstrap: Bootstrap = None,
    properties: ClientFile = None,
    json: Json = False,
) -> None:
    """Delete groups and their offsets, for good; the exit code is 1 if one is not deleted."""
    from .changes import run_delete

    place = KafkaPlace(bootstrap, properties)
    raise typer.Exit(run_delete(place, tuple(groups), yes=yes, as_json=json))
