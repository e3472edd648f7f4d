"""The members of forwarded groups that this gateway has seen.  Pure.

A move needs these members (rules/migration/group_moves.py) for two reasons.  A member of the source
that no gateway has seen connects to the source directly.  And the source does not show a member's
timeouts, the generation and the leader, but gateways have seen them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from tidegate_coordination.events.links import ForwardedMember

KEPT_SECONDS: Final = 1800.0
"""The longest session that brokers allow by default."""
MAX_MEMBERS: Final = 50_000
UNKNOWN_MS: Final = -1


@dataclass(slots=True)
class _Seen:
    generation: int
    leader: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    at: float


class ForwardedMembers:
    """See the module's head.  Times are seconds on one clock."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], _Seen] = {}

    def note_join(
        self,
        group_id: str,
        member_id: str,
        generation: int,
        leader: str,
        timeouts_ms: tuple[int, int],
        now: float,
    ) -> None:
        """Note an accepted JoinGroup.  timeouts_ms: of the session, and of a rebalance."""
        self._put(group_id, member_id, _Seen(generation, leader, *timeouts_ms, now))

    def note(self, group_id: str, member_id: str, generation: int, now: float) -> None:
        """Note an accepted request other than JoinGroup."""
        seen = self._seen.get((group_id, member_id))
        if seen is None:
            seen = _Seen(generation, "", UNKNOWN_MS, UNKNOWN_MS, now)
            return self._put(group_id, member_id, seen)
        if generation != seen.generation:
            seen.generation, seen.leader = generation, ""
        seen.at = now
        return None

    def forget(self, group_id: str, member_id: str) -> None:
        """Forget a member that has left."""
        self._seen.pop((group_id, member_id), None)

    def of(self, groups: Collection[str], now: float) -> list[ForwardedMember]:
        """Return the members of groups with recent requests, the latest first."""
        found = [
            (key, seen)
            for key, seen in self._seen.items()
            if key[0] in groups and now - seen.at < KEPT_SECONDS
        ]
        found.sort(key=lambda each: -each[1].at)
        return [
            ForwardedMember(
                *key,
                seen.generation,
                seen.leader,
                seen.session_timeout_ms,
                seen.rebalance_timeout_ms,
            )
            for key, seen in found
        ]

    def _put(self, group_id: str, member_id: str, seen: _Seen) -> None:
        key = (group_id, member_id)
        self._seen.pop(key, None)
        self._seen[key] = seen
        if len(self._seen) > MAX_MEMBERS:
            self._shrink(seen.at)

    def _shrink(self, now: float) -> None:
        """Forget silent members; if that is not enough, the half that joined first."""
        self._seen = {k: each for k, each in self._seen.items() if now - each.at < KEPT_SECONDS}
        if len(self._seen) > MAX_MEMBERS:
            self._seen = dict(list(self._seen.items())[MAX_MEMBERS // 2 :])
