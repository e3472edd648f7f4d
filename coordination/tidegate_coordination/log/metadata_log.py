"""The metadata log: the only shared mutable state of a cluster.

A totally ordered list of small entries. Positions start at 1 and have no gaps. `append` is a
compare-and-set of a position: exactly one payload ever holds it, for any number of writers and
attempts. All safety of the cluster rests on this; leases, leaders and clocks are only hints.

Trimming moves a durable boundary that only rises.  Readers cannot read positions below it, and
writers can never fill them again, not even a writer that was paused across a trim.

A URL is opened with `load.open_log`. Every implementation keeps its own deadlines: no call waits
without end, and each may be cancelled (the outcome of a cancelled append is unknown).  Any log can
be checked with `log_contract.verify_log`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple, Protocol

FIRST_POSITION: Final = 1


class LogUnavailable(Exception):
    """The log did not answer, or refused for now; the outcome of the call is unknown.

    Repeat the same append later. If the answer is CONFLICT, read the position: your own payload
    there means that an earlier attempt succeeded.
    """


class LogCorrupt(Exception):
    """The log holds bytes that were never appended, or lacks entries. Stop; the text says which."""


class LogMisconfigured(Exception):
    """The log cannot be used as it is set up. Stop; the text is for a person."""


class LogMisuse(ValueError):
    """The call is a bug of the caller. Nothing was changed."""


@dataclass(frozen=True, slots=True)
class LogCapabilities:
    """The capabilities of a log.

    `forward_to_leader`: the log supports few writers, so gateways send proposals to one of them.
    `inline_bytes_per_second`: the bytes of small writes that it takes from all gateways; 0: none.
    `inline_max_bytes`: of one small write; a PUT costs less than a larger one.
    `can_append`: False for a log that this gateway only reads; others append its proposals.
    """

    forward_to_leader: bool
    typical_append_seconds: float
    max_entry_bytes: int
    can_append: bool = True
    inline_bytes_per_second: int = 0
    inline_max_bytes: int = 256 << 10

    def check_append(self, position: int, payload: bytes) -> None:
        """Raises LogMisuse if the payload is over `max_entry_bytes`, or the position is below 1."""
        if position < FIRST_POSITION:
            raise LogMisuse(f"positions start at {FIRST_POSITION}, not {position}")
        if len(payload) > self.max_entry_bytes:
            raise LogMisuse(
                f"an entry of {len(payload)} bytes is over the limit of {self.max_entry_bytes}"
            )


class AppendResult(Enum):
    """The known outcome of an append."""

    APPENDED = "appended"
    CONFLICT = "conflict"  # the position is held, perhaps by this payload from an earlier attempt
    TRIMMED = "trimmed"  # the position is below the trim boundary: start again from the snapshot


class LogEntry(NamedTuple):
    position: int
    payload: bytes


class Snapshot(NamedTuple):
    """A fold of all entries up to and including `position`, in pieces as they were saved."""

    position: int
    chunks: list[bytes]


@dataclass(frozen=True, slots=True)
class Trimmed:
    """The requested positions are trimmed: load the snapshot, or read on from `first_position`."""

    first_position: int


class MetadataLog(Protocol):
    """Several handles may be open on one log, in one process or many.  All methods may be called
    concurrently.
    """

    @property
    def capabilities(self) -> LogCapabilities: ...

    async def append(self, position: int, payload: bytes) -> AppendResult:
        """Put `payload` at `position` if the position is free; durable when it returns APPENDED.

        Raises:
            LogUnavailable: the outcome is unknown.
            LogCorrupt: the entry before it is missing; the caller has read that entry, so the log
            lost it.
            LogMisuse: the payload is over `max_entry_bytes`, or the position is below 1.
        """
        ...

    async def read(self, from_position: int, max_bytes: int) -> list[LogEntry] | Trimmed:
        """The entries from `from_position` on, in order, without gaps; empty at the end of the log.

        At least one entry if there is one, then as many as fit in `max_bytes` of payload.  Sees
        every append that returned APPENDED to any caller before the call.

        Raises:
            LogCorrupt: an entry is damaged or missing, or the log ends before `from_position` - 1.
        """
        ...

    async def wait(self, after_position: int, timeout_seconds: float) -> None:
        """Return once an entry above `after_position` exists, or after the time-out.

        A hint: it may return early; read to be sure.
        """
        ...

    async def save_snapshot(self, position: int, chunks: Sequence[bytes]) -> None:
        """Store a snapshot of the entries up to `position`.  An incomplete one is never loaded.

        `snapshots.save_verified` is the way to call this: it reads the snapshot back.
        """
        ...

    async def load_snapshot(self) -> Snapshot | None:
        """The complete snapshot of the highest position whose checksums agree.

        Raises:
            LogCorrupt: there are complete snapshots, and none agrees with its checksums.
        """
        ...

    async def trim(self, before_position: int) -> None:
        """Delete the entries below `before_position`. A boundary at or below the present one holds.

        The boundary is durable before the first entry is deleted.  `snapshots.trim_below_verified`
        is the way to call this, since an entry that no snapshot covers would be lost.  A log that
        never held an entry accepts any boundary: a restored or moved log begins so.

        Raises:
            LogMisuse: the boundary lies beyond the end of the log, and the log has held entries.
        """
        ...

    async def aclose(self) -> None:
        """Close files and connections. Appended entries stay."""
        ...
