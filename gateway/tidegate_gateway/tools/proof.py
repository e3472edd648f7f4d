"""The proof that a repair needs before it skips records: they are lost, and the store is well.

A store that is ill answers 404 for objects that it holds, or returns wrong bytes, now and then.  A
run therefore counts as lost only if several looks, with minutes in between and each over new
connections, all see the same: GET, HEAD and LIST do not find the object, or the same bytes come
each time and are not the committed ones.  Each look also reads other runs.  If one answer differs
from an earlier one, the repair skips nothing.

No I/O: tools/looks.py looks, and this module decides.
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
# A loss above both bounds is rather a mistake in the command, or an outage of the store.
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
    # A contradiction counts, whatever else was silent.
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
        """Return whether it is unknown which records are lost."""
        return self is not Refusal.MANY


@dataclass(frozen=True, slots=True)
class Evidence:
    """The result of all looks.

    wanted: a verdict for each run to be skipped.  others: for each other run that the looks read.
    contradictions: answers that differed from an earlier answer to the same request.
    objects, lost_objects: how many objects hold the topic's records, and how many of them hold a
      wanted run.
    """

    wanted: tuple[Verdict, ...]
    others: tuple[Verdict, ...]
    contradictions: int
    objects: int
    lost_objects: int


def refusal(evidence: Evidence, *, even_if_many: bool) -> Refusal | None:
    """Return why nothing may be skipped; None if the wanted runs may be."""
    seen = Counter((*evidence.wanted, *evidence.others))
    if evidence.contradictions or seen[Verdict.UNSTEADY] or Verdict.WELL in evidence.wanted:
        return Refusal.UNSTEADY
    if seen[Verdict.SILENT]:
        return Refusal.SILENT
    if not even_if_many and is_many(evidence.lost_objects, evidence.objects):
        return Refusal.MANY
    return None


def is_many(lost: int, objects: int) -> bool:
    """Return whether so many of the objects are lost that an operator must say so again."""
    return lost > FEW_LOST and lost * 100 > objects * MAX_LOST_PERCENT


def pauses(seconds: float) -> Iterable[float]:
    """Return the pause before each look, of a proof that takes this long."""
    return (0.0, *(seconds / (LOOKS - 1) for _ in range(LOOKS - 1)))
