"""Moves of the metadata log while the cluster lives, drawn apart from all other faults.

move.moved   the old log is sealed, and the new log continues it

movers.py defines the faults during a move; no run promises them.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

PREFIX: Final = "move."
MOVED: Final = f"{PREFIX}moved"
FIRST_LOG: Final = "log 1"
_SHARE: Final = 0.1


@dataclass(frozen=True, slots=True)
class LogMovePlan:
    """The moves of one seed.

    moves: how often the log is moved.  movers: machines that run the command at the same time.
    is_harsh: movers and gateways are killed during the move, and logs are unreachable.
    """

    moves: int = 0
    movers: int = 0
    is_harsh: bool = False
    uses_next: bool = False

    @property
    def is_on(self) -> bool:
        """Return whether the log is moved at all."""
        return self.moves > 0

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the promised kinds."""
        return (MOVED,) if self.is_on else ()


def draw_moves(seed: int, *, is_calm: bool, all_reach_log: bool) -> LogMovePlan:
    """Draw the moves of a run.

    all_reach_log: no gateway reads the log through others, which do not show a move in the way of
    the log.
    """
    # The number in this text keeps the draws of the seeds with which tests find planted bugs.
    if not all_reach_log or Random(f"{seed}/moves 1").random() >= _SHARE:
        return LogMovePlan()
    rng = Random(f"{seed}/moves")
    movers = rng.choice((1, 1, 2))
    return LogMovePlan(
        moves=rng.choice((1, 1, 2)),
        movers=movers,
        is_harsh=not is_calm and rng.random() < 0.8,
        uses_next=movers == 1 and rng.random() < 0.5,
    )
