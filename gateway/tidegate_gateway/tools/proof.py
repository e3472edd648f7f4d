"""The proof that a repair needs before it skips records: they are lost, and the store works.

A faulty store may now and then answer 404 for objects that it holds, or return wrong bytes.  A run
therefore counts as lost only if several looks all see the same.  The looks are spread over minutes,
and each uses new connections.  Either GET, HEAD and LIST do not find the object, or each look reads
the same bytes, which are not the committed ones.  Each look also reads other runs.  If one answer
differs from an earlier answer to the same request, the repair skips nothing.

No I/O: tools/looks.py does the reads, and this module decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from .readability import Problem, Sight

LOOKS: Final = 4
DEFAULT_PROOF_SECONDS: Final = 180.0
# If a loss exceeds both limits, a mistake in the command or an outage of the store is more likely.
FEW_LOST: Final = 3
MAX_LOST_PERCENT: Final = 5


class Verdict(Enum):
    """The verdict on one run after all looks."""

    WELL = "each look could read it"
    LOST = "no look found its object: GET, HEAD and LIST agree"
    DAMAGED = "each look got the same damaged bytes"
    UNSTEADY = "the store's answers contradict each other"
    SILENT = "the store did not answer"


def verdict(sights: Sequence[Sight]) -> Verdict:
    """Judge a run by the looks at it, at least one."""
    single = {_judge(each) for each in sights}
    if len(single) == 1:
        return single.pop()
    # A contradiction decides, even if the store did not answer some looks.
    return Verdict.UNSTEADY if len(single - {Verdict.SILENT}) > 1 else Verdict.SILENT


def _judge(sight: Sight) -> Verdict:
    known = (sight.is_listed, sight.exists)
    if sight.problem is Problem.UNKNOWN or None in known:
        return Verdict.SILENT
    if sight.problem is Problem.MISSING:
        return Verdict.LOST if known == (False, False) else Verdict.UNSTEADY
    if known != (True, True):
        return Verdict.UNSTEADY
    return Verdict.WELL if sight.problem is None else Verdict.DAMAGED


class Refusal(Enum):
    """Why a repair skips nothing; the value is for people."""

    UNSTEADY = (
        "The object store's answers contradict each other: objects are missing, or damaged, only"
        " now and then. The records are probably whole. Repair the store, and run the command"
        " again."
    )
    SILENT = "The object store did not answer each time. Run the command again once it does."
    MANY = (
        "So large a part is lost that it is rather an outage, a wrong prefix or a wrong bucket."
        " If these objects are really lost for good, --even-if-many skips them all the same."
    )

    @property
    def is_about_the_store(self) -> bool:
        """Return whether the store's answers do not tell which records are lost."""
        return self is not Refusal.MANY


@dataclass(frozen=True, slots=True)
class Evidence:
    """The result of all looks.

    wanted: a verdict for each run to be skipped.  others: for each other run that the looks read.
    contradictions: answers that differed from an earlier answer to the same request.  objects: how
    many objects hold the topic's records.  lost_objects: how many of these hold a wanted run.
    """

    wanted: tuple[Verdict, ...]
    others: tuple[Verdict, ...]
    contradictions: int
    objects: int
    lost_objects: int


def refusal(evidence: Evidence, *, even_if_many: bool) -> Refusal | None:
    """Return why nothing may be skipped; None if the wanted runs may be skipped."""
    seen = Counter((*evidence.wanted, *evidence.others))
    if evidence.contradictions or seen[Verdict.UNSTEADY] or Verdict.WELL in evidence.wanted:
        return Refusal.UNSTEADY
    if seen[Verdict.SILENT]:
        return Refusal.SILENT
    if not even_if_many and is_many(evidence.lost_objects, evidence.objects):
        return Refusal.MANY
    return None


def is_many(lost: int, objects: int) -> bool:
    """Return whether so many objects are lost that the operator must set --even-if-many."""
    return lost > FEW_LOST and lost * 100 > objects * MAX_LOST_PERCENT


def pauses(seconds: float) -> Iterable[float]:
    """Return the pause before each look, for a proof that takes `seconds`."""
    return (0.0, *(seconds / (LOOKS - 1) for _ in range(LOOKS - 1)))
