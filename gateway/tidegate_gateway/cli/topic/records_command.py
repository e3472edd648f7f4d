"""The commands `tidegate topic produce` and `consume`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..kafka.options import Bootstrap, ClientFile, KafkaPlace, TopicName
from ..options import Json

app = typer.Typer(rich_markup_mode=None)


class Compression(StrEnum):
    """Kafka's codecs."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


@app.command("produce")
def produce_records(
    topic: TopicName,
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Each line is a record; stdin if none is given."),
    ] = None,
    key_separator: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Each line is a key, this, and a value; \\t is a tab."),
    ] = None,
    null_marker: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="A key or value that is this text is null."),
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A header of each record; may be repeated."),
    ] = None,
    partition: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="Write to this one.",
            show_default="by the hash of the key, as Kafka's clients do",
        ),
    ] = None,
    compression: Annotated[
        Compression, typer.Option(help="How batches are compressed.")
    ] = Compression.NONE,
    bootstrap: Bootstrap = None,
    properties: ClientFile = None,
    json: Json = False,
) -> None:
    """Write lines to a topic, and say how many records were acknowledged.

    A missing topic is created if auto.create.topics.enable is on.  A record is sent again for up to
    two minutes, and written only once.  The exit code is 1 if a line was not acknowledged.
    """
    from .produce import ProduceOptions, run_produce

    options = ProduceOptions(
        topic,
        file,
        key_separator,
        null_marker,
        tuple(header or ()),
        partition,
        compression.name,
    )
    raise typer.Exit(run_produce(KafkaPlace(bootstrap, properties), options, as_json=json))


@app.command("consume")
def consume_records(
    topic: TopicName,
    start: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="PLACE",
            help="earliest, latest, an offset, a time such as 2026-01-31T12:00:00Z, or"
            " @MILLISECONDS.",
        ),
    ] = "earliest",
    partition: Annotated[
        list[int] | None,
        typer.Option(min=0, metavar="N", help="Only this one; may be repeated."),
    ] = None,
    most: Annotated[
        int | None, typer.Option("--max", min=1, metavar="N", help="End after so many records.")
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on at the end, until Ctrl+C.")
    ] = False,
    committed: Annotated[
        bool,
        typer.Option("--committed", help="No records of open or aborted transactions."),
    ] = False,
    values: Annotated[
        bool, typer.Option("--values", help="Print only the values, each with a line end.")
    ] = False,
    group: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Read as a member of this group, and commit what was printed."
        ),
    ] = "",
    bootstrap: Bootstrap = None,
    properties: ClientFile = None,
    json: Json = False,
) -> None:
    """Read a topic to the end that it has now, and print its records.

    A line shows partition and offset, time, key, value and headers; control characters are escaped.
    With --json each record is a line of its own.  Without --group no offset is committed; with it,
    --from applies only to partitions for which the group has no offset.
    """
    from .consume import ConsumeOptions, run_consume

    options = ConsumeOptions(
        topic, start, tuple(partition or ()), most, follow, committed, values, json, group
    )
    raise typer.Exit(run_consume(KafkaPlace(bootstrap, properties), options))
