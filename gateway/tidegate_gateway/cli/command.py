"""The commands and options.  A command imports its code when it is called, so --help stays quick.

Other packages add commands by entry points of group `tidegate.commands`: each is a typer.Typer,
whose commands follow the entry point's name, as in `tidegate pipeline run`.  For its list of
commands, --help loads the module of each entry point.  So such a module should hold only commands
and options.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from ..cost.figures import Batches
from .audit import command as audit_command
from .debug import command as debug_command
from .gateways import command as gateway_command
from .group import command as group_command
from .link import command as link_command
from .log import command as log_command
from .options import (
    DEV_DATA,
    SERVE_DATA,
    Admins,
    CaFile,
    DataOfCluster,
    Json,
    LogThatExists,
    StoreThatExists,
    TokenFile,
)
from .topic import command as topic_command
from .transaction import command as transaction_command
from .user import command as user_command

COMMANDS: Final = "tidegate.commands"

app = typer.Typer(
    name="tidegate",
    help="A Kafka gateway whose only disk is object storage.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(log_command.app, name="log")
app.add_typer(link_command.app, name="link")
app.add_typer(topic_command.app, name="topic")
app.add_typer(group_command.app, name="group")
app.add_typer(gateway_command.app, name="gateway")
app.add_typer(transaction_command.app, name="transaction")
app.add_typer(audit_command.app, name="audit")
app.add_typer(user_command.app, name="user")
app.add_typer(debug_command.app, name="debug")

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting, by its name; may be repeated."),
]
LogLevel = Annotated[str, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")]
ConfigFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Settings as TOML.")]
PropertiesFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Settings as a server.properties.")
]
Data = Annotated[Path, typer.Option(metavar="DIR", help="Folder for the gateway's data.")]
ObjectStore = Annotated[
    str | None,
    typer.Option(metavar="URL", help="memory:, file:DIR, s3://..., gs://... or az://..."),
]
LogUrl = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="URL",
        help="memory:, sqlite:FILE, postgres://..., s3://..., dynamodb://..., http://... or a"
        " plug-in's.",
    ),
]
PricesFile = Annotated[
    Path | None, typer.Option("--prices", metavar="FILE", help="Your prices, as TOML.")
]
MOST_MB: Final = 100_000
Memory = Annotated[bool, typer.Option("--memory", help="Keep everything in memory only.")]


@app.command()
def dev(
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="0: any free port.")
    ] = 9092,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="Where to listen; clients get it as the address.")
    ] = ("127.0.0.1"),
    admin_port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="Port of health and metrics.")
    ] = (9644),
    data: Data = DEV_DATA,
    object_store: ObjectStore = None,
    log: LogUrl = None,
    memory: Memory = False,
    pipeline: Annotated[
        bool, typer.Option("--pipeline", help="Also run `tidegate pipeline run`.")
    ] = False,
    zones: Annotated[
        int,
        typer.Option(
            min=0, max=9, metavar="N", help="N gateways in N zones, at the ports from --port on."
        ),
    ] = 0,
    real: Annotated[
        bool, typer.Option("--real", help="With --zones: also start PostgreSQL and an S3 server.")
    ] = False,
    set_: Set = None,
    json: Json = False,
    log_level: LogLevel = "warning",
) -> None:
    """Run one gateway on this machine, or several, without any setup."""
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
    processes: Annotated[
        str,
        typer.Option(
            metavar="N", help="N gateways, with node ids and ports from the settings' on; or auto."
        ),
    ] = "",
    stop_at_eof: Annotated[bool, typer.Option("--stop-at-eof", hidden=True)] = False,
    process: Annotated[int, typer.Option("--process", hidden=True)] = 0,
) -> None:
    """Run a gateway from settings: defaults, --config, --properties, TIDEGATE_..., --set."""
    from .serve import run_serve, run_several

    if processes:
        raise typer.Exit(
            run_several(
                config, properties, data, set_ or [], processes, as_json=json, log_level=log_level
            )
        )
    raise typer.Exit(
        run_serve(
            config,
            properties,
            data,
            set_ or [],
            as_json=json,
            log_level=log_level,
            stop_at_eof=stop_at_eof,
            process=process,
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
            help="Folder of the data; by default data, or tidegate-data if only `dev` ran here.",
        ),
    ] = None,
    object_store: ObjectStore = None,
    log: LogUrl = None,
    set_: Set = None,
    json: Json = False,
) -> None:
    """Check what a gateway with these settings needs; exit code 1 if something is missing."""
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

    With --log also whether the cluster needs it. The exit code is 1 if it is damaged, 2 if the
    command cannot tell.
    """
    from .inspect.command import InspectOptions, run_inspect

    options = InspectOptions(what, object_store, data, log, records)
    raise typer.Exit(run_inspect(options, as_json=json))


@app.command()
def zones(
    admin: Admins = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    json: Json = False,
) -> None:
    """Show which clients cross zones at some gateways, and how to avoid it."""
    from .admin_reader import DEFAULT_ADMIN, Access
    from .zones import run_zones

    access = Access(token_file, ca_file)
    raise typer.Exit(run_zones(admin or [DEFAULT_ADMIN], access, as_json=json))


@app.command()
def top(
    admin: Admins = None,
    interval: Annotated[
        float, typer.Option(min=0.1, max=3600, metavar="SECONDS", help="Between two frames.")
    ] = 2.0,
    once: Annotated[
        bool, typer.Option("--once", help="Print one frame, after one interval, and end.")
    ] = False,
    prices: PricesFile = None,
    token_file: TokenFile = None,
    ca_file: CaFile = None,
    json: Json = False,
) -> None:
    """Show gateways, topics, groups and the object store with its costs, live; q ends it.

    Each gateway has one second to answer. Without a terminal, and with --json, it prints one frame.
    """
    from .admin_reader import DEFAULT_ADMIN, Access
    from .top.command import TopOptions, run_top

    options = TopOptions(interval, once, json, prices)
    raise typer.Exit(run_top(admin or [DEFAULT_ADMIN], Access(token_file, ca_file), options))


@app.command()
def cost(
    data: DataOfCluster = DEV_DATA,
    object_store: StoreThatExists = None,
    since: Annotated[
        str, typer.Option(metavar="SPAN", help="How far back: a number and h, d or w.")
    ] = "7d",
    by: Annotated[
        str, typer.Option(metavar="WHAT", help="Which table: topic, client or group.")
    ] = "topic",
    prices: PricesFile = None,
    json: Json = False,
) -> None:
    """Show the requests to the object store, for whom they were, their costs, and how to save."""
    from .cost import CostOptions, run_cost

    options = CostOptions(data, object_store, since, by, prices)
    raise typer.Exit(run_cost(options, as_json=json))


@app.command()
def plan(
    write: Annotated[
        float, typer.Option(min=0, max=MOST_MB, metavar="MB/S", help="What producers send.")
    ],
    read: Annotated[
        float, typer.Option(min=0, max=MOST_MB, metavar="MB/S", help="What all consumers get.")
    ],
    partitions: Annotated[
        int, typer.Option(min=1, max=1_000_000, metavar="N", help="Of all topics.")
    ] = 16,
    retention: Annotated[
        float, typer.Option(min=0, max=36_500, metavar="DAYS", help="How long records are kept.")
    ] = 7.0,
    zones: Annotated[int, typer.Option(min=1, max=9, metavar="N", help="Zones.")] = 3,
    batches: Annotated[
        Batches, typer.Option(help="What producers send: java is Java's defaults.")
    ] = Batches.MIDDLE,
    prices: PricesFile = None,
    json: Json = False,
) -> None:
    """Show the machines, requests and money that a load will need, by the bench's figures."""
    from ..cost.plan import Load
    from .plan import run_plan

    load = Load(write, read, partitions, retention, zones, batches)
    raise typer.Exit(run_plan(load, prices, as_json=json))


@app.command("version")
def show_version() -> None:
    """Print the version, whether the loops over record bytes are compiled, and the interpreter."""
    from importlib.metadata import version
    from platform import python_version

    from tidegate_protocol.record_walk import IS_COMPILED

    from ..tools.interpreter import is_optimised

    typer.echo(f"tidegate {version('tidegate')}")
    typer.echo(f"record walk: {'compiled' if IS_COMPILED else 'Python, slower than compiled'}")
    build = "an optimised build" if is_optimised() else "not optimised by profiles, so slower"
    typer.echo(f"python: {python_version()}, {build}")


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
    """Take the options before a command's name: only --version."""


def run() -> None:
    """Run the command that the arguments name.

    Raises:
      KeyboardInterrupt: Ctrl+C, in an exception group.  Outside of a group, Typer ends quietly.
    """
    if not _own_words().intersection(sys.argv[1:2]):
        _add_plugged_in("".join(sys.argv[1:2]))
    app()


def _own_words() -> set[str]:
    """Return the first arguments of calls that need no other package's commands."""
    groups = (each.name for each in app.registered_groups)
    commands = (
        each.name or getattr(each.callback, "__name__", "") for each in app.registered_commands
    )
    return {*map(str, groups), *commands, "--version"}


def _add_plugged_in(wanted: str) -> None:
    """Add another package's command; add all such commands for --help, or if none has that name."""
    from importlib.metadata import entry_points

    for found in entry_points(group=COMMANDS, name=wanted) or entry_points(group=COMMANDS):
        try:
            app.add_typer(found.load(), name=found.name)
        except (ImportError, AttributeError) as error:
            typer.echo(f"the command {found.name!r} cannot be loaded: {error}", err=True)
