"""The findings of a run, for people and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

# excluded: it failed as an exclusion says; skipped: it cannot run on this machine.
Status = Literal["passed", "failed", "excluded", "skipped"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One test, tool call or check; `detail` says why unless it passed."""

    name: str
    status: Status
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All outcomes of one suite against one broker."""

    suite: str
    against: str
    outcomes: Sequence[Outcome]
    seconds: float

    @property
    def failed(self) -> bool:
        """Whether a test failed that is not excluded."""
        return any(outcome.status == "failed" for outcome in self.outcomes)

    def text(self) -> str:
        """Return lines for a terminal: the name of each test that did not pass, and the totals."""
        lines = [_line(outcome) for outcome in self.outcomes if outcome.status != "passed"]
        counts = Counter(outcome.status for outcome in self.outcomes)
        sums = ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))
        return "\n".join(
            [*lines, f"{self.suite} against {self.against}: {sums}, {self.seconds:.0f} s"]
        )

    def figures(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        return {
            "suite": self.suite,
            "against": self.against,
            "seconds": round(self.seconds, 1),
            "failed": self.failed,
            "outcomes": [asdict(outcome) for outcome in self.outcomes],
        }


def _line(outcome: Outcome) -> str:
    detail = outcome.detail.replace("\n", "\n    ")
    return f"{outcome.status.upper()} {outcome.name}{': ' + detail if detail else ''}"
