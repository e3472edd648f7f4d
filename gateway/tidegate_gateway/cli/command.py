"""The command line's words.  What they do is imported when they are called: --help stays quick.

Other packages add commands by entry points of group `tidegate.commands`: each is a typer.Typer,
whose commands stand below the entry point's name, as in `tidegate pipeline run`.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Annotated, Final

import typer

COMMANDS: Final = "tidegate.commands"

app = typer.Typer(
    name="tidegate",
    help="A Kafka gateway whose only disk is object storage.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
log_app = typer.Typer(help="Metadata logs.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(log_app, name="log")
topic_app = typer.Typer(
    help="Topics, beside what Kafka's own tools do.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(topic_app, name="topic")
gateway_app = typer.Typer(
    help="Gateways of a cluster.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(gateway_app, name="gateway")

Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting, by its name; may be repeated."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
LogLevel = Annotated[str, typer.Option(metavar="LEVEL", help="debug, info, warning or error.")]
ConfigFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Settings as TOML.")]
PropertiesFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Settings as a server.properties.")
]
Data = Annotated[Path, typer.Option(metavar="DIR", help="Folder for what is kept.")]
ObjectStore = Annotated[
    str | None, typer.Option(metavar="URL", help="memory:, file:DIR or s3://BUCKET/PREFIX.")
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
    data: Data = Path("tidegate-data"),
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
    from .dev import DevOptions, run_dev

    options = DevOptions(port, host, admin_port, data, object_store, log, memory, pipeline)
    if zones or real:
        from .dev_zones import run_dev_zones

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
    data: Data = Path("data"),
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
    data: Data = Path("data"),
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


@log_app.command()
def verify(
    url: Annotated[str, typer.Argument(help="Of a log that is new and empty; it gets filled.")],
    json: Json = False,
) -> None:
    """Run the public contract of metadata logs on a new, empty log."""
    from .log_verify import run_verify

    raise typer.Exit(run_verify(url, as_json=json))


@log_app.command("serve")
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
    from .log_serve import LogServeOptions, run_log_serve

    options = LogServeOptions(url, listen, token_file, read_only)
    raise typer.Exit(run_log_serve(options, as_json=json))


LogThatExists = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="URL",
        help="sqlite:FILE, postgres://..., s3://..., http://... or a plug-in's.",
    ),
]
StoreThatExists = Annotated[
    str | None,
    typer.Option("--object-store", metavar="URL", help="file:DIR or s3://BUCKET/PREFIX."),
]


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
    from .inspect import InspectOptions, run_inspect

    options = InspectOptions(what, object_store, data, log, records)
    raise typer.Exit(run_inspect(options, as_json=json))


LogToRead = Annotated[
    str,
    typer.Option(
        "--log",
        metavar="URL",
        help="sqlite:FILE, postgres://..., s3://..., http://... or a plug-in's.",
    ),
]
StoreWithData = Annotated[
    str, typer.Option("--object-store", metavar="URL", help="file:DIR or s3://BUCKET/PREFIX.")
]


@log_app.command()
def backup(log: LogToRead, object_store: StoreWithData, json: Json = False) -> None:
    """Copy a metadata log to the object store now; gateways do so by themselves."""
    from .log_backup import run_backup

    raise typer.Exit(run_backup(log, object_store, as_json=json))


@log_app.command()
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
    from .log_restore import RestoreOptions, run_restore

    options = RestoreOptions(from_store, log, object_store, cluster, while_gateways_run)
    raise typer.Exit(run_restore(options, as_json=json))


@log_app.command()
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
    json: Json = False,
) -> None:
    """Move the metadata log of a live cluster to another log; its gateways follow by themselves.

    All gateways must be of a release that knows this command. A password in NEW is not told to
    them: one that needs it, or another URL than NEW, gets its whole URL beforehand as
    metadata.log.next. Run it again if it was cut short.
    """
    from .log_move import LogMoveOptions, run_log_move

    options = LogMoveOptions(log, to, cancel, timeout, stall)
    raise typer.Exit(run_log_move(options, as_json=json))


@log_app.command()
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
    from .log_repair import RepairOptions, run_repair

    raise typer.Exit(run_repair(RepairOptions(url, object_store, to, save, yes), as_json=json))


@topic_app.command("repair")
def repair_topic(
    topic: Annotated[str, typer.Argument(help="Its name.")],
    partition: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only this one.")
    ] = None,
    data: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the gateway's data.")] = Path(
        "tidegate-data"
    ),
    object_store: StoreThatExists = None,
    log: LogThatExists = None,
    skip: Annotated[
        bool, typer.Option("--skip", help="Take what cannot be read out of the topic, for good.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Read a topic, show which records cannot be read, and with --skip go on without them.

    Gateways may run meanwhile. The exit code is 1 while something cannot be read, 2 if that could
    not be determined.
    """
    from .topic_repair import TopicRepairOptions, run_topic_repair

    options = TopicRepairOptions(topic, partition, data, object_store, log, skip, yes)
    raise typer.Exit(run_topic_repair(options, as_json=json))


DataOfCluster = Annotated[Path, typer.Option(metavar="DIR", help="Folder of a gateway's data.")]
NodeId = Annotated[int, typer.Argument(metavar="ID", help="Its node.id.")]


@gateway_app.command("list")
def list_gateways(
    data: DataOfCluster = Path("tidegate-data"), log: LogThatExists = None, json: Json = False
) -> None:
    """Show the gateways of a cluster, and which of them drain."""
    from .gateways import ClusterOptions, run_list

    raise typer.Exit(run_list(ClusterOptions(data, log), as_json=json))


@gateway_app.command("drain")
def drain_gateway(
    node_id: NodeId,
    data: DataOfCluster = Path("tidegate-data"),
    log: LogThatExists = None,
    stop: Annotated[
        bool, typer.Option("--stop", help="End its process, too, once nothing is left.")
    ] = False,
    timeout: Annotated[
        int, typer.Option(min=0, metavar="SECONDS", help="Of waiting until it is drained; 0: none.")
    ] = 60,
) -> None:
    """Send clients and consumer groups of a gateway to the others; it stays, ready to be stopped.

    The exit code is 1 if it was not drained in time.
    """
    from .gateways import ClusterOptions, DrainOptions, run_drain

    raise typer.Exit(run_drain(ClusterOptions(data, log), DrainOptions(node_id, stop, timeout)))


@gateway_app.command("undrain")
def undrain_gateway(
    node_id: NodeId, data: DataOfCluster = Path("tidegate-data"), log: LogThatExists = None
) -> None:
    """Let a gateway that drains take new work again."""
    from .gateways import ClusterOptions, run_undrain

    raise typer.Exit(run_undrain(ClusterOptions(data, log), node_id))


@app.command()
def zones(
    admin: Annotated[
        str, typer.Option("--admin", metavar="HOST:PORT", help="A gateway's admin.listener.")
    ] = "127.0.0.1:9644",
    json: Json = False,
) -> None:
    """Show which clients cross zones at a gateway, and how to stop it."""
    from .zones import run_zones

    raise typer.Exit(run_zones(admin, as_json=json))


@app.command("version")
def show_version() -> None:
    """Print the version."""
    typer.echo(f"tidegate {version('tidegate')}")


def run() -> None:
    """Run the command that the arguments name."""
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
    }
    if not own.intersection(sys.argv[1:2]):
        _add_plugged_in("".join(sys.argv[1:2]))
    app()


def _add_plugged_in(wanted: str) -> None:
    """Add the command that is wanted; all of them for --help, or if there is none of that name."""
    for found in entry_points(group=COMMANDS, name=wanted) or entry_points(group=COMMANDS):
        try:
            app.add_typer(found.load(), name=found.name)
        except (ImportError, AttributeError) as error:
            typer.echo(f"the command {found.name!r} cannot be loaded: {error}", err=True)
