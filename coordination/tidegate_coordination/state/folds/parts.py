"""All folds of a state, by subject."""

from __future__ import annotations

from typing import Final

from ..tables import StateTables
from .cluster import ClusterFolds
from .groups import GroupFolds
from .inlined import InlineFolds
from .mirrors import MirrorFolds
from .runs import RunFolds
from .transactions import TransactionFolds


class FoldParts:
    """See the module's head.  state: its tables fold events that concern no other table."""

    def __init__(self, state: StateTables) -> None:
        self.state: Final = state
        self.runs: Final = RunFolds(state)
        self.inlined: Final = InlineFolds(state)
        self.transactions: Final = TransactionFolds(state)
        self.groups: Final = GroupFolds(state, self.transactions)
        self.mirrors: Final = MirrorFolds(state)
        self.cluster: Final = ClusterFolds(state, self.groups, self.transactions, self.mirrors)
