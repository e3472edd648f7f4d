"""The commands of `tidegate link` that carry ACLs, quotas and users over."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..options import DEV_DATA, DataOfCluster, Json, LogThatExists, Yes
from .options import Name, Properties

app = typer.Typer()

Trial = Annotated[
    bool,
    typer.Option("--dry-run", help="Only show; the exit code is 1 if something would change."),
]
Prune = Annotated[bool, typer.Option("--prune", help="Remove here what the source does not have.")]


@app.command("acls")
def carry_acls(
    name: Name,
    only_linked: Annotated[
        bool,
        typer.Option(
            "--only-linked",
            help="Only ACLs that touch topics, groups or transactional ids of the link.",
        ),
    ] = False,
    prune: Prune = False,
    dry_run: Trial = False,
    client_properties: Properties = None,
    yes: Yes = False,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """Compare the ACLs of the source with those here, and add those that are missing.

    ACLs that deny are added before ACLs that allow.  Nothing is removed without --prune, and
    nothing changes at the source.  The exit code is 1 if something was not done.
    """
    from ..existing_cluster import ClusterOptions
    from .acls import run_acls
    from .carrying import CarryOptions

    options = CarryOptions(name, client_properties, prune, dry_run, yes)
    cluster = ClusterOptions(data, log)
    raise typer.Exit(run_acls(cluster, options, only_linked=only_linked, as_json=json))


@app.command("quotas")
def carry_quotas(
    name: Name,
    prune: Prune = False,
    dry_run: Trial = False,
    client_properties: Properties = None,
    yes: Yes = False,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """Compare the client quotas of the source with those here, and set the source's quotas here.

    Nothing is removed without --prune, and nothing changes at the source. The exit code is 1 if
    something was not done.
    """
    from ..existing_cluster import ClusterOptions
    from .carrying import CarryOptions
    from .quotas import run_quotas

    options = CarryOptions(name, client_properties, prune, dry_run, yes)
    raise typer.Exit(run_quotas(ClusterOptions(data, log), options, as_json=json))


@app.command("users")
def carry_users(
    name: Name,
    user: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this user; may be repeated."),
    ] = None,
    generate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Make passwords, and write them to this new file."),
    ] = None,
    passwords: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Set the passwords of this file, a JSON object by user name."
        ),
    ] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Also set new passwords for users that have one here.")
    ] = False,
    secret_key: Annotated[
        Path | None,
        typer.Option(
            "--secret-key", metavar="FILE", help="Where the gateways' metadata.secret.key is."
        ),
    ] = None,
    plain: Annotated[
        bool,
        typer.Option("--plain", help="Seal nothing: the gateways have no metadata.secret.key."),
    ] = False,
    client_properties: Properties = None,
    yes: Yes = False,
    data: DataOfCluster = DEV_DATA,
    log: LogThatExists = None,
    json: Json = False,
) -> None:
    """Show the SCRAM users of the source, and give them new passwords here.

    A source does not tell passwords or keys. Users keep mechanisms and iterations. Nothing changes
    at the source. The exit code is 1 if something was not done.
    """
    from ..existing_cluster import ClusterOptions
    from .users import UserOptions, run_users

    names = tuple(user or ())
    options = UserOptions(
        name, names, generate, passwords, replace, yes, client_properties, secret_key, plain
    )
    raise typer.Exit(run_users(ClusterOptions(data, log), options, as_json=json))
