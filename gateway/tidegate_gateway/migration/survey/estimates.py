"""Estimates of the copy and the switch of a source's topics, and the obstacles.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Final, NamedTuple

from tidegate_coordination.client.source_bounds import Place

from ..fence_ages import TOPICS
from ..mirror.link import HURRY_SECONDS
from ..switch.switching import IDLE_SECONDS, LOOK_SECONDS, SETTLE_SECONDS

MIN_READ_BYTES: Final = 1 << 20
"""The fewest bytes to measure a rate by: with fewer it would say little."""
OBJECT_BYTES: Final = 8 << 20
"""A WAL object of a copy that does not wait for records."""
METADATA_STEPS: Final = 5
"""Answers that a switch waits for, and that take about as long as Metadata's: that twice, the
change of the fence, and two rounds of probes.
"""
OFFSETS_STEPS: Final = 2
APPENDS: Final = 4
"""The appends to the log: the fence, the gateways' answers, the last batches, the switch."""
UNCLEAN: Final = "unclean.leader.election.enable"
_DELETE_RETENTION: Final = "delete.retention.ms"
_DEFAULT_DELETE_RETENTION_MS: Final = 86_400_000
_RETENTION: Final = "retention.ms"
_DEFAULT_RETENTION_MS: Final = 604_800_000
_MIB: Final = 1 << 20


class Problem(NamedTuple):
    """An obstacle to the move of a topic."""

    topic: str
    text: str


@dataclass(frozen=True, slots=True)
class Estimate:
    """The result of estimate().

    is_measured: the rate was measured, not given.  copy_seconds, objects: None if the source does
    not tell the sizes.  stall_seconds: how long writers wait if all topics are switched at once.
    """

    size_bytes: int | None
    mib_per_second: float
    is_measured: bool
    copy_seconds: float | None
    objects: int | None
    stall_seconds: float


@dataclass(frozen=True, slots=True)
class Measured:
    """The measurements of a rehearsal.  append_seconds: of a log entry, typically."""

    read_bytes: int
    read_seconds: float
    metadata_seconds: float
    offsets_seconds: float
    append_seconds: float


def estimate(sizes: Sequence[int | None], measured: Measured, given_mib: float) -> Estimate:
    """Return the time and bytes that a copy and a switch of topics of these sizes take.

    given_mib: MiB a second, used if too little was read to measure the rate.
    """
    known = [each for each in sizes if each is not None]
    size = sum(known) if len(known) == len(sizes) else None
    is_measured = measured.read_bytes >= MIN_READ_BYTES and measured.read_seconds > 0
    rate = measured.read_bytes / measured.read_seconds / _MIB if is_measured else given_mib
    return Estimate(
        size,
        rate,
        is_measured,
        size / _MIB / rate if size is not None else None,
        ceil(size / OBJECT_BYTES) if size is not None else None,
        stall_seconds(measured),
    )


def stall_seconds(measured: Measured) -> float:
    """Return how long a switch keeps writers waiting, if nothing goes wrong."""
    answers = METADATA_STEPS * measured.metadata_seconds + OFFSETS_STEPS * measured.offsets_seconds
    waits = IDLE_SECONDS + SETTLE_SECONDS + HURRY_SECONDS + 2 * LOOK_SECONDS
    return answers + waits + APPENDS * measured.append_seconds


def config_problems(configs: Mapping[str, Mapping[str, str]]) -> list[Problem]:
    """Return the topic configs that prevent a safe copy, however long it takes."""
    text = f"{UNCLEAN} is true: an election may lose records that are copied already; set it to"
    return [
        Problem(name, f"{text} false")
        for name, own in configs.items()
        if own.get(UNCLEAN, "").lower() == "true"
    ]


def transaction_problems(
    ends: Mapping[Place, int | str], stable: Mapping[Place, int | str]
) -> list[Problem]:
    """Return the partitions in which a transaction is open."""
    found: list[Problem] = []
    for (topic, index), end in ends.items():
        first = stable.get((topic, index))
        if isinstance(end, int) and isinstance(first, int) and first < end:
            text = f"partition {index}: a transaction is open since offset {first}: end it before"
            found.append(Problem(topic, f"{text} the switch"))
    return found


def time_problems(configs: Mapping[str, Mapping[str, str]], copy_seconds: float) -> list[Problem]:
    """Return the topics whose source removes records or tombstones before they are copied."""
    found: list[Problem] = []
    for name, own in configs.items():
        policies = own.get("cleanup.policy", "delete").split(",")
        tombstones_ms = int(own.get(_DELETE_RETENTION, _DEFAULT_DELETE_RETENTION_MS))
        retention_ms = int(own.get(_RETENTION, _DEFAULT_RETENTION_MS))
        if "compact" in policies and tombstones_ms < copy_seconds * 1000:
            text = f"it is compacted with {_DELETE_RETENTION}={tombstones_ms}, less than the copy's"
            found.append(Problem(name, f"{text} time: deleted keys may stay here; raise it before"))
        if "delete" in policies and 0 <= retention_ms < copy_seconds * 1000:
            text = (
                f"{_RETENTION}={retention_ms} is less than the copy's time: records expire before"
            )
            found.append(Problem(name, f"{text} they are copied"))
    return found


def switch_problem(stall: float) -> str:
    """Return why all topics should not be switched at once; "" if they can be."""
    if stall <= TOPICS.own:
        return ""
    return f"longer than the {TOPICS.own:g} s after which a switch is lifted: switch in parts"
