"""The pipelines of a run and their faults; drawn apart from all other faults.

Kinds, besides those of log and store, which strike a driver as they strike a gateway:

    crash, crash_point, drain, stall, isolate  as for gateways; a driver also dies
                just before it reads, and leaves during a round
    twice       a task runs twice, in parallel or in turn, and either result counts
    lost_task   the results of a task never arrive
    failed_task a task fails as a whole
    slow_task   the results of a task arrive late
    skew        the clock of one driver is wrong by an hour
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tidegate_pipeline.planning.limits import MergeSettings

PREFIX = "pipeline."
TASK_KINDS = ("twice", "lost_task", "failed_task", "slow_task")
EVENT_KINDS = tuple(
    f"{PREFIX}{each}" for each in ("crash", "crash_point", "drain", "stall", "isolate")
)
PIPELINE_KINDS = (*(f"{PREFIX}{each}" for each in TASK_KINDS), *EVENT_KINDS, f"{PREFIX}skew")
_MAX_KINDS = 4
_HOUR_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class TaskFaults:
    """Shares of tasks, from 0 to 1.  slow_seconds: of a slow one, at most."""

    twice: float = 0.0
    lost_task: float = 0.0
    failed_task: float = 0.0
    slow_task: float = 0.0
    slow_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """The pipelines of one seed.

    drivers: how many at once.  is_bold: they ignore claims.  pause_seconds: between two rounds.
    backup_ms, orphan_scan_ms: of the gateways; 0 for never.  compacts: the run has a compacted
    topic.
    """

    drivers: int = 0
    is_bold: bool = False
    kinds: tuple[str, ...] = ()
    settings: MergeSettings = field(default_factory=MergeSettings)
    tasks: TaskFaults = field(default_factory=TaskFaults)
    tasks_at_once: int = 1
    pause_seconds: float = 1.0
    skew_seconds: float = 0.0
    backup_ms: int = 60_000
    orphan_scan_ms: int = 0
    compacts: bool = False

    @property
    def settings_of_gateways(self) -> dict[str, str]:
        """Return the settings of gateways beside a pipeline; none if the run has no pipeline."""
        if not self.drivers:
            return {}
        return {
            "log.backup.interval.ms": str(self.backup_ms),
            "orphan.scan.interval.ms": str(self.orphan_scan_ms),
        }


def draw_pipelines(rng: Random, *, is_calm: bool, with_wrong_clocks: bool) -> PipelinePlan:
    """Draw the pipelines of a run.

    with_wrong_clocks: a gateway's clock is wrong, so log time may stand still for a day.  Then
    every wait in log time lasts that long.
    """
    drivers = rng.choice((0, 0, 1, 1, 1, 2, 2))
    if not drivers:
        return PipelinePlan()
    kinds = () if is_calm else _kinds(rng, with_wrong_clocks)
    rates = {each: rng.choice((0.05, 0.2, 0.5)) for each in TASK_KINDS}
    return PipelinePlan(
        drivers,
        drivers > 1 and rng.random() < 0.6,
        kinds,
        MergeSettings(
            segment_bytes=rng.choice((300, 1_000, 5_000, 64 << 20)),
            rest_ms=rng.choice((0, 0, 1_000, 5_000, 20_000)) * (not with_wrong_clocks),
            patience_ms=rng.choice((0, 2_000, 20_000)) * (not with_wrong_clocks),
            min_parts=rng.choice((1, 2, 4, 16)),
            task_bytes=rng.choice((1, 1_000, 128 << 20)),
            chunk_bytes=rng.choice((1, 100, 1_000, 1 << 20)),
            least_kept_bytes=0,
            least_span_ms=0,
            map_bytes=rng.choice((1, 1_000, 128 << 20)),
        ),
        TaskFaults(
            **{each: rates[each] if f"{PREFIX}{each}" in kinds else 0.0 for each in TASK_KINDS},
            slow_seconds=rng.choice((1.0, 10.0, 60.0)),
        ),
        rng.choice((1, 2)),
        rng.choice((0.5, 2.0, 5.0)),
        _HOUR_SECONDS * rng.choice((-1, 1)) if f"{PREFIX}skew" in kinds else 0.0,
        rng.choice((0, 1_000, 5_000, 60_000)),
        rng.choice((0, 3_000, 30_000)),
        rng.random() < 0.5,
    )


def _kinds(rng: Random, with_wrong_clocks: bool) -> tuple[str, ...]:
    share = rng.choice((0.0, 0.15, 0.35))
    drawn = [each for each in PIPELINE_KINDS if rng.random() < share]
    if with_wrong_clocks:
        drawn = [each for each in drawn if not each.endswith("skew")]
    chosen = rng.sample(drawn, min(len(drawn), _MAX_KINDS))
    return tuple(each for each in PIPELINE_KINDS if each in chosen)
