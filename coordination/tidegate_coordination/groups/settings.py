"""The settings of groups."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Kafka's settings of classic groups, and bounds of Tidegate's own.

    Kafka: group.initial.rebalance.delay.ms, group.min.session.timeout.ms,
    group.max.session.timeout.ms, group.max.size, offset.metadata.max.bytes.
    Tidegate: max_join_bytes and max_assignment_bytes bound the metadata of one group's members and
    its leader's assignment; together they must fit in a log entry. max_hosted_bytes bounds the join
    metadata of all groups that one gateway serves.  new_member_join_seconds: how long the parked
    join of a new member keeps it in the group (a fixed five minutes in Kafka).
    """

    initial_rebalance_delay_ms: int = 3000
    min_session_timeout_ms: int = 6000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2**31 - 1
    offset_metadata_max_bytes: int = 4096
    max_join_bytes: int = 512 * 1024
    max_assignment_bytes: int = 256 * 1024
    max_pending_members: int = 10_000
    max_hosted_bytes: int = 256 * 1024 * 1024
    new_member_join_seconds: float = 300.0

    @property
    def initial_delay_seconds(self) -> float:
        """Return how long the first rebalance of a group waits for more members."""
        return self.initial_rebalance_delay_ms / 1000
