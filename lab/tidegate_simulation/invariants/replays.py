"""The state at a position is the fold of the log, however a replica got it: invariant 5.

Every REPLAY_ENTRIES entries the watch's replica is compared with a second replica that loaded the
previous snapshot and folded on.  When the entries have doubled, and at the end, it is compared with
a fold from the first entry.  Gateways compare their states byte for byte with the watch's, at each
start and every COMPARED_ENTRIES entries.  The watch encodes a state only for a comparison.  So the
cost of a run grows with its entries, not with their square.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from itertools import islice

from tidegate_coordination.events.entries import decode_entry
from tidegate_coordination.state.cluster import ClusterState

REPLAY_ENTRIES = 25
# Gateways compare states where this divides the position, and at the start of each incarnation.
COMPARED_ENTRIES = 5


class Replays:
    """See the module's head.

    state: the watch's replica.  payloads: all entries, even those not folded yet.  broken: called
    with the number of the invariant and a text about the violation.
    """

    def __init__(
        self, state: ClusterState, payloads: Sequence[bytes], broken: Callable[[int, str], None]
    ) -> None:
        self._state = state
        self._payloads = payloads
        self._broken = broken
        self._digests: dict[int, bytes] = {}
        self._snapshots: dict[int, bytes] = {0: ClusterState().encode()}
        self._whole_at = REPLAY_ENTRIES

    def after_entry(self) -> None:
        """Record the state after an entry."""
        position = self._state.position
        if position % COMPARED_ENTRIES:
            return
        encoded = self._state.encode()
        self._digests[position] = _digest(encoded)
        if position % REPLAY_ENTRIES == 0:
            self._look(position, encoded)

    def _look(self, position: int, encoded: bytes) -> None:
        if ClusterState.decode(encoded).encode() != encoded:
            self._broken(5, "decoding a snapshot gives another state")
        if self._fold(position).encode() != encoded:
            self._broken(5, "a replay from a snapshot gives another state")
        self._snapshots[position] = encoded
        if position >= self._whole_at:
            self._whole_at = 2 * position
            self.replay_all()

    def replay_all(self) -> None:
        """Compare with the fold of all entries from the first on."""
        if self._is_whole and replay(self._payloads).encode() != self._state.encode():
            self._broken(5, "a replay gives another state")

    def compare(self, who: str, state: ClusterState) -> None:
        """Compare with the state of another replica."""
        expected = self._digest_at(state.position)
        if expected is not None and _digest(state.encode()) != expected:
            self._broken(5, f"{who} holds another state at {state.position}")

    def _digest_at(self, position: int) -> bytes | None:
        """Return None for positions that the watch has not reached."""
        if not 0 < position <= self._state.position:
            return None
        if position not in self._digests:
            is_here = self._is_whole and position == self._state.position
            state = self._state if is_here else self._fold(position)
            self._digests[position] = _digest(state.encode())
        return self._digests[position]

    @property
    def _is_whole(self) -> bool:
        """Return whether no entry broke the state."""
        return self._state.position == len(self._payloads)

    def _fold(self, position: int) -> ClusterState:
        """Return the state at a position, from the snapshot before it."""
        start = (position - 1) // REPLAY_ENTRIES * REPLAY_ENTRIES
        state = ClusterState.decode(self._snapshots[start])
        _fold_on(state, islice(self._payloads, start, position))
        return state


def replay(payloads: Sequence[bytes]) -> ClusterState:
    """Fold entries from the first on."""
    state = ClusterState()
    _fold_on(state, payloads)
    return state


def _fold_on(state: ClusterState, payloads: Iterable[bytes]) -> None:
    for position, payload in enumerate(payloads, state.position + 1):
        state.apply(position, decode_entry(payload, position))


def _digest(encoded: bytes) -> bytes:
    return blake2b(encoded, digest_size=16).digest()
