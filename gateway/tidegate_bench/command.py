"""The command line of this package, plugged into `tidegate`."""

from __future__ import annotations

import signal
from enum import StrEnum
from typing import Annotated

import typer

app = typer.Typer(invoke_without_command=True, rich_markup_mode=None, subcommand_metavar="")


class Client(StrEnum):
    """Whose clients put the load on."""

    LIBRDKAFKA = "librdkafka"
    JAVA = "java"
    BOTH = "both"


@app.callback(context_settings={"allow_interspersed_args": True})
def main(
    scenarios: Annotated[
        list[str],
        typer.Argument(
            metavar="SCENARIO...",
            help="ingest, latency, lone-producer, fanout, cold-read, state, commits, connections,"
            " restart, merge, compact, metadata.",
        ),
    ],
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Of a broker that runs already.")
    ] = None,
    pid: Annotated[
        int | None, typer.Option(metavar="PID", help="Its process, if it is local: for its CPU.")
    ] = None,
    metrics: Annotated[
        str | None, typer.Option(metavar="URL", help="Its metrics page: for requests and PUTs.")
    ] = None,
    store: Annotated[
        str, typer.Option(metavar="STORE", help="seaweedfs, memory, file or a URL.")
    ] = "seaweedfs",
    log: Annotated[
        str | None,
        typer.Option(
            metavar="LOG", help="memory, sqlite or a URL; commits: sqlite, postgres, s3 or a URL."
        ),
    ] = None,
    vs_kafka: Annotated[
        bool, typer.Option("--vs-kafka", help="The same with Apache Kafka, in turns.")
    ] = False,
    client: Annotated[
        Client, typer.Option(help="Whose clients.", show_choices=True)
    ] = Client.LIBRDKAFKA,
    quick: Annotated[bool, typer.Option("--quick", help="One short run of fewer cases.")] = False,
    all_cases: Annotated[bool, typer.Option("--all", help="Every combination of ingest.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(metavar="TEXT", help="Cases whose label holds the text.")
    ] = None,
    delay_ms: Annotated[
        float, typer.Option(min=0, metavar="MS", help="Of each PUT, for lone-producer.")
    ] = 60.0,
    hours: Annotated[
        float, typer.Option(min=0, metavar="H", help="Of virtual time, for metadata.")
    ] = 1.0,
    partitions: Annotated[int, typer.Option(min=1, metavar="N", help="For metadata.")] = 100_000,
    gateways: Annotated[
        int, typer.Option(min=1, metavar="N", help="For metadata and commits.")
    ] = 9,
    slices: Annotated[
        int, typer.Option(min=1, metavar="N", help="Of a flush, for metadata and commits.")
    ] = 200,
    retention_hours: Annotated[
        float, typer.Option(min=0, metavar="H", help="For metadata.")
    ] = 0.25,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Of our own gateway.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")] = False,
) -> None:
    """Measure what a gateway costs: CPU per MB, latency, memory, requests to the store."""
    from .errors import BenchError
    from .options import Options, parse_settings
    from .run import run

    try:
        settings = parse_settings(set_ or [])
    except BenchError as error:
        raise typer.BadParameter(str(error)) from error
    options = Options(
        bootstrap=bootstrap,
        pid=pid,
        metrics_url=metrics,
        store=store,
        log=log,
        vs_kafka=vs_kafka,
        client=client.value,
        quick=quick,
        all_cases=all_cases,
        only=tuple(only or ()),
        settings=settings,
        delay_ms=delay_ms,
        hours=hours,
        partitions=partitions,
        gateways=gateways,
        slices=slices,
        retention_hours=retention_hours,
    )
    _ = signal.signal(signal.SIGTERM, _leave)
    raise typer.Exit(run(scenarios, options, as_json=json))


def _leave(number: int, frame: object) -> None:
    """Go the way of an error, so that all processes and folders go too."""
    raise SystemExit(128 + number)
