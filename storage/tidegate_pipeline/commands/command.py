"""The commands `tidegate pipeline run`, `once`, `import` and `status`, plugged into `tidegate`.

This module has only options and help; each command imports its work when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from .options import Options

app = typer.Typer(
    help="Merge small objects into segments, one partition each, and compact topics.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

MAX_SEGMENT_BYTES = 1 << 30
DAY_MS = 86_400_000


class RunnerName(StrEnum):
    """Where tasks run."""

    SPARK = "spark"
    LOCAL = "local"


class Validation(StrEnum):
    """How an import checks batches; see record.validation of gateways."""

    FULL = "full"
    HEADER = "header"


Data = Annotated[Path, typer.Option(metavar="DIR", help="Folder of the gateway's data.")]
ObjectStore = Annotated[
    str | None,
    typer.Option(
        metavar="URL", envvar="TIDEGATE_PIPELINE_STORE", help="file:DIR or s3://BUCKET/PREFIX."
    ),
]
LogUrl = Annotated[
    str | None,
    typer.Option(
        "--log",
        metavar="URL",
        envvar="TIDEGATE_PIPELINE_LOG",
        help="sqlite:FILE, postgres://..., s3://..., dynamodb://... or a plug-in's.",
    ),
]
Runner = Annotated[
    RunnerName | None,
    typer.Option(help="Where tasks run; Spark if it is installed.", show_choices=True),
]
Master = Annotated[
    str, typer.Option(metavar="URL", help="Spark's master; by default local[N] with N cores.")
]
MaxFailures = Annotated[
    int, typer.Option(min=1, max=100, metavar="N", help="Tries of a task on Spark.")
]
Speculation = Annotated[
    bool, typer.Option("--speculation", help="On a cluster, run tasks that take minutes twice.")
]
SegmentBytes = Annotated[
    int,
    typer.Option(min=1024, max=MAX_SEGMENT_BYTES, metavar="BYTES", help="Size of a full segment."),
]
RestMs = Annotated[int, typer.Option(min=0, max=DAY_MS, metavar="MS", help="Skip younger records.")]
PatienceMs = Annotated[
    int,
    typer.Option(min=0, max=DAY_MS, metavar="MS", help="Merge older records, however few."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
LogLevel = Annotated[
    str, typer.Option(metavar="LEVEL", help="debug, info, warning or error.", show_default=False)
]


def _options(arguments: Mapping[str, Any]) -> Options:
    """Return the common options of `run` and `once`; arguments and fields have equal names."""
    from .options import Options

    return Options(**{each.name: arguments[each.name] for each in fields(Options)})


@app.command()
def run(
    data: Data = Path("tidegate-data"),
    object_store: ObjectStore = None,
    log: LogUrl = None,
    runner: Runner = None,
    master: Master = "",
    max_failures: MaxFailures = 4,
    speculation: Speculation = False,
    segment_bytes: SegmentBytes = 64 << 20,
    rest_ms: RestMs = 20_000,
    patience_ms: PatienceMs = 120_000,
    interval_seconds: Annotated[
        float,
        typer.Option(min=0.05, max=3600, metavar="S", help="Pause after a round without work."),
    ] = 5.0,
    admin: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Serve metrics, health and status here.")
    ] = "",
    log_level: LogLevel = "",
    stop_at_eof: Annotated[bool, typer.Option("--stop-at-eof", hidden=True)] = False,
) -> None:
    """Merge and compact until it is stopped; one per cluster is enough, more do no harm."""
    options = _options(locals())
    from .resident import Residence, run_resident

    residence = Residence(interval_seconds, admin, stop_at_eof)
    raise typer.Exit(run_resident(options, residence, log_level=log_level))


@app.command()
def once(
    data: Data = Path("tidegate-data"),
    object_store: ObjectStore = None,
    log: LogUrl = None,
    runner: Runner = None,
    master: Master = "",
    max_failures: MaxFailures = 4,
    speculation: Speculation = False,
    segment_bytes: SegmentBytes = 64 << 20,
    rest_ms: RestMs = 0,
    patience_ms: PatienceMs = 0,
    json: Json = False,
    log_level: LogLevel = "warning",
) -> None:
    """Merge all runs, compact the topics that are due, and end.

    The exit code is 1 if some runs could not be merged, 2 if there is no cluster yet.
    """
    options = _options(locals())
    from .once import run_once

    raise typer.Exit(run_once(options, as_json=json, log_level=log_level))


@app.command("import")
def import_(
    link: Annotated[str, typer.Argument(metavar="LINK", help="The link's name.")],
    topic: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this topic; may be repeated.")
    ] = None,
    client_properties: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Kafka client properties for a source with SASL or TLS."),
    ] = None,
    logs: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR", help="Read this log folder of a broker instead; may be repeated."
        ),
    ] = None,
    tier: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Read tiered storage of Aiven's plug-in instead: file:DIR, s3://..."
        ),
    ] = None,
    tier_prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="The plug-in's key.prefix.")
    ] = "",
    tier_key: Annotated[
        list[str] | None,
        typer.Option(metavar="ID=FILE", help="A private key of the plug-in; may be repeated."),
    ] = None,
    record_validation: Annotated[
        Validation, typer.Option(help="header: copy batches whose records are malformed, too.")
    ] = Validation.FULL,
    data: Data = Path("tidegate-data"),
    object_store: ObjectStore = None,
    log: LogUrl = None,
    runner: Runner = None,
    master: Master = "",
    max_failures: MaxFailures = 4,
    json: Json = False,
    log_level: LogLevel = "warning",
) -> None:
    """Copy the backlog of a link's topics in parallel, while gateways do not mirror them; and end.

    It continues where it ended if it is stopped or killed. The exit code is 1 if partitions could
    not be copied, 2 if there is no cluster yet.
    """
    from .import_sources import ImportOptions
    from .importing import run_import

    unused = {"speculation": False, "segment_bytes": 64 << 20, "rest_ms": 0, "patience_ms": 0}
    options = _options({**unused, **locals()})
    wanted = ImportOptions(
        link,
        tuple(topic or ()),
        client_properties,
        tuple(logs or ()),
        tier,
        tier_prefix,
        tuple(tier_key or ()),
        record_validation is Validation.FULL,
    )
    raise typer.Exit(run_import(options, wanted, as_json=json, log_level=log_level))


@app.command()
def status(
    data: Data = Path("tidegate-data"),
    object_store: ObjectStore = None,
    log: LogUrl = None,
    json: Json = False,
) -> None:
    """Show how much is left to merge, and whether a pipeline is running."""
    from .status import run_status

    raise typer.Exit(run_status(data, log, as_json=json))
