"""The topics of a run with faults, and the producers that write to them."""

from __future__ import annotations

from typing import Final, NamedTuple

from pipeline.fault_kinds import CUT, KEYED
from pipeline.ledger import Ledger
from pipeline.load import Stream, create_topic, producer_of
from pipeline.reading import Kept
from pipeline.records import CODECS

STEADY, SHORT, LITTLE = "steady", "short", "little"
RETENTION_MS = 8_000
# The producers of these partitions are not idempotent.
INEXACT: Final = ("gzip", "lz4")


class Topic(NamedTuple):
    """codecs: one for each partition."""

    codecs: tuple[str, ...]
    records_per_second: float
    config: dict[str, str]


TOPICS: Final = {
    STEADY: Topic(CODECS, 30, {"retention.ms": "-1"}),
    KEYED: Topic(
        ("zstd", "lz4"),
        40,
        {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.05",
            "delete.retention.ms": "15000",
            "retention.ms": "-1",
        },
    ),
    SHORT: Topic(("none", "gzip"), 30, {"retention.ms": str(RETENTION_MS)}),
    LITTLE: Topic(("snappy",), 30, {"retention.ms": "-1", "retention.bytes": "400000"}),
    CUT: Topic(("zstd",), 30, {"retention.ms": "-1"}),
}
KEPT: Final = {
    SHORT: Kept(retention_ms=RETENTION_MS),
    LITTLE: Kept(is_cut=True),
    CUT: Kept(is_cut=True),
}


def make_topics(bootstrap: str) -> dict[str, list[Ledger]]:
    """Create all topics; return by topic the ledgers of its streams."""
    ledgers: dict[str, list[Ledger]] = {}
    for name, topic in TOPICS.items():
        create_topic(bootstrap, name, len(topic.codecs), topic.config)
        ledgers[name] = [
            Ledger(name, partition, codec, codec not in INEXACT, name == KEYED)
            for partition, codec in enumerate(topic.codecs)
        ]
    return ledgers


def streams_of(bootstrap: str, ledgers: dict[str, list[Ledger]]) -> list[Stream]:
    """Return the streams that write to these topics."""
    producers = {
        codec: producer_of(bootstrap, codec, is_exact=codec not in INEXACT) for codec in CODECS
    }
    return [
        Stream(producers[each.codec], each, TOPICS[name].records_per_second)
        for name, some in ledgers.items()
        for each in some
    ]
