"""Checks that events can be folded, before they are written: a bad entry stops every replica.

A rule should never decide on such an event, nor on one above the cluster's level.  If a rule does
so by mistake, only its own proposal fails, and the cluster does not stop (decision 24).

One Trial belongs to one entry under construction.  It reads the state without changing it, and
records changes by earlier events of the entry that later checks depend on.  Scopes keep all
proposals but WAL commits from reading earlier changes (../rules/proposal.py), so these changes are
few: where partitions end, and facts that may occur only once.

The trial is no second fold.  It knows the fold's expectations, and the bounds of its columns.
Tests compare trial and fold: events that pass here can be folded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..events import cluster as ev
from .broken import StateBroken, expect
from .columns import check_numbers
from .event_rows import ROWS
from .trial.events import TrialParts

_CHECKS: Final = {row.kind: row.check for row in ROWS}


class Trial(TrialParts):
    """The trial of one entry under construction."""

    def check(self, events: Iterable[ev.Event]) -> None:
        """Check that the events can be folded after those of earlier calls.

        Raises:
          StateBroken, LookupError, struct.error, TypeError: the events cannot be folded.
            Do not use the trial again: the changes that the call has recorded are not undone.
        """
        for event in events:
            # often the only event of an entry, and a large one
            if isinstance(event, ev.WalCommitted):
                self.runs.wal_committed(event)
            else:
                self._check(event)

    def _check(self, event: ev.Event) -> None:
        kind = type(event)
        if kind not in _CHECKS:
            raise StateBroken(f"no trial knows {kind.__name__}: see state/event_rows.py")
        check_numbers(event)
        expect(getattr(event, "tenant", 0) == 0, "there are no tenants yet")
        check = _CHECKS[kind]
        if check is not None:
            check(self)(event)
