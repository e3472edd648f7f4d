"""The command line of this package, plugged into `tidegate`."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from .options import Options

app = typer.Typer(invoke_without_command=True, rich_markup_mode=None, subcommand_metavar="")


class Client(StrEnum):
    """The client library of the load."""

    LIBRDKAFKA = "librdkafka"
    JAVA = "java"
    BOTH = "both"


Scenarios = Annotated[
    list[str],
    typer.Argument(
        metavar="SCENARIO...",
        help="ingest, latency, lone-producer, fanout, cold-read, transactions, state,"
        " transaction-state, commits, connections, restart, merge, compact, metadata, published.",
    ),
]
Bootstrap = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="A broker that runs already.")
]
Pid = Annotated[
    int | None,
    typer.Option(metavar="PID", help="The broker's process, if it is local: for its CPU."),
]
MetricsUrl = Annotated[
    str | None,
    typer.Option(metavar="URL", help="The broker's metrics page: for requests and PUTs."),
]
Store = Annotated[str, typer.Option(metavar="STORE", help="seaweedfs, memory, file or a URL.")]
Log = Annotated[
    str | None,
    typer.Option(
        metavar="LOG", help="memory, sqlite or a URL; commits: sqlite, postgres, s3 or a URL."
    ),
]
VsKafka = Annotated[bool, typer.Option("--vs-kafka", help="The same with Apache Kafka, in turns.")]
Clients = Annotated[Client, typer.Option(help="Whose clients.", show_choices=True)]
Quick = Annotated[bool, typer.Option("--quick", help="One short run of fewer cases.")]
AllCases = Annotated[bool, typer.Option("--all", help="Every combination of ingest.")]
Only = Annotated[
    list[str] | None, typer.Option(metavar="TEXT", help="Cases whose label holds the text.")
]
DelayMs = Annotated[
    float, typer.Option(min=0, metavar="MS", help="The delay of each PUT, for lone-producer.")
]
Hours = Annotated[float, typer.Option(min=0, metavar="H", help="Virtual time, for metadata.")]
Partitions = Annotated[int, typer.Option(min=1, metavar="N", help="For metadata.")]
Gateways = Annotated[int, typer.Option(min=1, metavar="N", help="For metadata and commits.")]
Slices = Annotated[
    int, typer.Option(min=1, metavar="N", help="Slices of a flush, for metadata and commits.")
]
RetentionHours = Annotated[float, typer.Option(min=0, metavar="H", help="For metadata.")]
Processes = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="N gateways of ours under a supervisor, and N cores for either broker; needs a log"
        " that processes share.",
    ),
]
Set = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="For our own gateway.")
]
Publish = Annotated[
    bool,
    typer.Option("--publish", help="Write the figures into the pages: published --vs-kafka only."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


@app.callback(context_settings={"allow_interspersed_args": True})
def main(
    scenarios: Scenarios,
    bootstrap: Bootstrap = None,
    pid: Pid = None,
    metrics: MetricsUrl = None,
    store: Store = "seaweedfs",
    log: Log = None,
    vs_kafka: VsKafka = False,
    client: Clients = Client.LIBRDKAFKA,
    quick: Quick = False,
    all_cases: AllCases = False,
    only: Only = None,
    delay_ms: DelayMs = 60.0,
    hours: Hours = 1.0,
    partitions: Partitions = 100_000,
    gateways: Gateways = 9,
    slices: Slices = 200,
    retention_hours: RetentionHours = 0.25,
    processes: Processes = None,
    set_: Set = None,
    publish: Publish = False,
    json: Json = False,
) -> None:
    """Measure what a gateway costs: CPU per MB, latency, memory, requests to the store."""
    options = _options(locals())
    from .run import run

    _ = signal.signal(signal.SIGTERM, _leave)
    raise typer.Exit(run(scenarios, options, as_json=json, is_published=publish))


def _options(arguments: Mapping[str, Any]) -> Options:
    """Return the options; most arguments have the names of their fields."""
    from .options import Options

    given: dict[str, Any] = {
        **arguments,
        "metrics_url": arguments["metrics"],
        "client": arguments["client"].value,
        "only": tuple(arguments["only"] or ()),
        "settings": _settings(arguments["set_"] or []),
    }
    return Options(**{each.name: given[each.name] for each in fields(Options)})


def _settings(assignments: Sequence[str]) -> dict[str, str]:
    from .errors import BenchError
    from .options import parse_settings

    try:
        return parse_settings(assignments)
    except BenchError as error:
        raise typer.BadParameter(str(error)) from error


def _leave(number: int, frame: object) -> None:
    """Raise SystemExit, so that open contexts end their processes and remove their folders."""
    raise SystemExit(128 + number)
