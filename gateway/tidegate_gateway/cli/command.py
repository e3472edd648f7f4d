"""The command line's words.  What they do is imported when they are called: --help stays quick.

Other packages add commands by entry points of group `tidegate.commands`: each is a typer.Typer,
whose commands stand below the entry point's name, as in `tidegate pipeline run`.  --help loads the
module of each for its line, so such a module should hold words only, too.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from . import gateway_command
from .log import command as log_command
from .options import DEV_DATA, SERVE_DATA, Json, LogThatExists, StoreThatExists
from .topic import command as topic_command

COMMANDS: Final = "tidegate.commands"

app = typer.Typer(
    name="tidegate",
    help="A Kafka gateway whose only disk is object storage.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(log_command.app, name="log")
app.add_typer(topic_command.app, name="topic")
app.add_typer(gateway_command.app, name="gateway")

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting, by its name; may be repeated."),
]
LogLevel = Annotated[str, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")]
ConfigFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Settings as TOML.")]
PropertiesFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Settings as a server.properties.")
]
Data = Annotated[Path, typer.Option(metavar="DIR", help="Folder for what is kept.")]
ObjectStore = Annotated[
    str | None,
    typer.Option(metavar="URL", help="memory:, file:DIR, s3://..., gs://... or az://..."),
]
LogUrl = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="URL",
        help="memory:, sqlite:FILE, postgres://..., s3://..., http://... or a plug-in's.",
    ),
]
Memory = Annotated[bool, typer.Option("--memory", help="Keep everything in memory only.")]


@app.command()
def dev(
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="0: any that is free.")
    ] = 9092,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Where to listen, and what clients are told.")
    ] = ("127.0.0.1"),
    admin_port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="Of health and metrics.")
    ] = (9644),
    data: Data = DEV_DATA,
    object_store: ObjectStore = None,
    log: LogUrl = None,
    memory: Memory = False,
    pipeline: Annotated[
        bool, typer.Option("--pipeline", help="Run `tidegate pipeline run` beside it.")
    ] = False,
    zones: Annotated[
        int,
        typer.Option(
            min=0, max=9, metavar="N", help="N gateways, a zone each, at ports from --port on."
        ),
    ] = 0,
    real: Annotated[
        bool, typer.Option("--real", help="With --zones: on PostgreSQL and an S3 server, started.")
    ] = False,
    set_: Set = None,
    json: Json = False,
    log_level: LogLevel = "warning",
) -> None:
    """Run one gateway on this machine, or several, with nothing to set up."""
    from .dev.command import DevOptions, run_dev

    options = DevOptions(port, host, admin_port, data, object_store, log, memory, pipeline)
    if zones or real:
        from .dev_zones.command import run_dev_zones

        raise typer.Exit(
            run_dev_zones(
                options, zones, set_ or [], is_real=real, as_json=json, log_level=log_level
            )
        )
    raise typer.Exit(run_dev(options, set_ or [], as_json=json, log_level=log_level))


@app.command()
def serve(
    config: ConfigFile = None,
    properties: PropertiesFile = None,
    data: Data = SERVE_DATA,
    set_: Set = None,
    json: Json = False,
    log_level: LogLevel = "info",
    stop_at_eof: Annotated[bool, typer.Option("--stop-at-eof", hidden=True)] = False,
) -> None:
    """Run a gateway from settings: defaults, --config, --properties, TIDEGATE_..., --set."""
    from .serve import run_serve

    raise typer.Exit(
        run_serve(
            config,
            properties,
            data,
            set_ or [],
            as_json=json,
            log_level=log_level,
            stop_at_eof=stop_at_eof,
        )
    )


@app.command()
def doctor(
    config: ConfigFile = None,
    properties: PropertiesFile = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for what is kept; data by default, or tidegate-data if only dev ran here.",
        ),
    ] = None,
    object_store: ObjectStore = None,
    log: LogUrl = None,
    set_: Set = None,
    json: Json = False,
) -> None:
    """Check what a gateway with these settings would need; exit code 1 if something is missing."""
    from .doctor import run_doctor

    chosen = {"object.store": object_store, "metadata.log": log}
    assignments = [f"{name}={url}" for name, url in chosen.items() if url is not None]
    raise typer.Exit(
        run_doctor(config, properties, data, [*assignments, *(set_ or [])], as_json=json)
    )


@app.command()
def inspect(
    what: Annotated[
        str, typer.Argument(metavar="OBJECT", help="Key of an object in the store, or a file.")
    ],
    object_store: StoreThatExists = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the gateway's data.")
    ] = None,
    log: LogThatExists = None,
    records: Annotated[bool, typer.Option("--records", help="List the record batches.")] = False,
    json: Json = False,
) -> None:
    """Show what a WAL object or a segment holds, and whether it is whole.

    With --log also whether the cluster needs it. The exit code is 1 if it is damaged, 2 if that
    cannot be told.
    """
    from .inspect.command import InspectOptions, run_inspect

    options = InspectOptions(what, object_store, data, log, records)
    raise typer.Exit(run_inspect(options, as_json=json))


@app.command()
def zones(
    admin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT",
            help="A gateway's admin.listener; may be given for several, which are summed.",
            show_default="127.0.0.1:9644",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Show which clients cross zones at some gateways, and how to stop it."""
    from .zones import run_zones

    raise typer.Exit(run_zones(admin or ["127.0.0.1:9644"], as_json=json))


@app.command("version")
def show_version() -> None:
    """Print the version."""
    from importlib.metadata import version

    typer.echo(f"tidegate {version('tidegate')}")


def _version_asked(asked: bool) -> None:
    if asked:
        show_version()
        raise typer.Exit


@app.callback(no_args_is_help=True)
def _options(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_version_asked, help="Print the version, and exit."
        ),
    ] = False,
) -> None:
    """What is said before a command's name: nothing but --version."""


def run() -> None:
    """Run the command that the arguments name.

    Raises:
      KeyboardInterrupt: Ctrl+C, perhaps in groups.  Typer ends quietly at one outside of a group.
    """
    own = {
        "dev",
        "serve",
        "doctor",
        "gateway",
        "inspect",
        "log",
        "topic",
        "version",
        "zones",
        "--version",
    }
    if not own.intersection(sys.argv[1:2]):
        _add_plugged_in("".join(sys.argv[1:2]))
    app()


def _add_plugged_in(wanted: str) -> None:
    """Add the command that is wanted; all of them for --help, or if there is none of that name."""
    from importlib.metadata import entry_points

    for found in entry_points(group=COMMANDS, name=wanted) or entry_points(group=COMMANDS):
        try:
            app.add_typer(found.load(), name=found.name)
        except (ImportError, AttributeError) as error:
            typer.echo(f"the command {found.name!r} cannot be loaded: {error}", err=True)
