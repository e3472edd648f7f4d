"""The work of a client process: specifications that travel as JSON, and results."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TypedDict

KIB = 1024


@dataclass(frozen=True, slots=True)
class Produce:
    """Send max_bytes, or for max_seconds.

    batch_bytes goes to one partition at a time, so that batches have that size whatever the number
    of partitions.  bytes_per_second 0: as fast as it goes.  own_batching: batches and partitions
    are left to the client's defaults.  codec: of compression.type; empty: none.  Sizes are before
    compression.
    """

    bootstrap: str
    topic: str
    partitions: int
    batch_bytes: int
    max_bytes: int
    max_seconds: float
    producers: int = 1
    idempotent: bool = False
    record_bytes: int = KIB
    bytes_per_second: float = 0.0
    own_batching: bool = False
    codec: str = ""


@dataclass(frozen=True, slots=True)
class Read:
    """Read max_bytes with each of `readers` consumers, or for max_seconds; discard the records."""

    bootstrap: str
    topic: str
    partitions: int
    readers: int
    max_bytes: int
    max_seconds: float
    from_start: bool


@dataclass(frozen=True, slots=True)
class OneByOne:
    """Send records, each once the one before is acknowledged, or has been read if read_back."""

    bootstrap: str
    topic: str
    records: int
    max_seconds: float
    read_back: bool
    record_bytes: int = 100
    pause_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Transact:
    """Each of `producers` writes transactions of `batches`, one after the other, for max_seconds,
    or until all have written 1.5 GB.

    version: of transactions, 1 or 2; 0: the same batches of an idempotent producer.
    in_flight: batches at a time; the first one of a transaction goes alone.
    """

    bootstrap: str
    topic: str
    partitions: int
    producers: int
    version: int
    batches: int
    batch_bytes: int
    in_flight: int
    max_seconds: float


Spec = Produce | Read | OneByOne | Transact


class Told(TypedDict, total=False):
    """The result of a client; latencies are in seconds.

    transactions: their count.  concurrent: answers CONCURRENT_TRANSACTIONS.
    """

    payload_bytes: int
    seconds: float
    records: int
    latencies: list[float]
    transactions: int
    concurrent: int


_KINDS: dict[str, type[Produce] | type[Read] | type[OneByOne] | type[Transact]] = {
    kind.__name__: kind for kind in (Produce, Read, OneByOne, Transact)
}


def to_json(spec: Spec) -> str:
    """Return the specification as text."""
    return json.dumps({"kind": type(spec).__name__, **asdict(spec)})


def from_json(text: str) -> Spec:
    """Return the specification of a text that to_json() made."""
    fields = json.loads(text)
    return _KINDS[fields.pop("kind")](**fields)
