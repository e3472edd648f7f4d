"""How large segments are.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from tidegate_coordination.configs.topic_settings import TopicSettings

# The least number of segments into which retained records are divided.
RETAINED_SEGMENTS = 8


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """Sizes in bytes, times in ms of log time.

    segment_bytes: the size of a full segment.  rest_ms: younger runs are skipped.  patience_ms:
    older runs are merged even if they are few.  min_parts: this many parts are merged sooner.
    task_bytes: the bytes of all units of one task; about the memory that a task takes. map_bytes:
    the memory for the newest offsets of keys, while compacting.  least_kept_bytes, least_span_ms:
    lower bounds of a segment, even if retention keeps little.  Without them each run would become a
    segment, at the cost of a PUT.
    """

    segment_bytes: int = 64 << 20
    rest_ms: int = 20_000
    patience_ms: int = 120_000
    min_parts: int = 16
    task_bytes: int = 128 << 20
    chunk_bytes: int = 1 << 20
    map_bytes: int = 128 << 20
    least_kept_bytes: int = 1 << 20
    least_span_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of a topic's segments: bytes, and ms between the oldest and the newest record."""

    segment_bytes: int
    span_ms: float


def limits_of(settings: MergeSettings, topic: TopicSettings) -> Limits:
    """Return the bounds of a topic's segments.

    Retention deletes whole segments, so each is a small part of the retained records.  Lower bounds
    keep segments from being almost empty.
    """
    segment_bytes = min(settings.segment_bytes, topic.segment_bytes)
    span_ms = inf
    if topic.is_deleted_by_policy and topic.retention_bytes >= 0:
        kept_bytes = topic.retention_bytes // RETAINED_SEGMENTS
        segment_bytes = min(segment_bytes, max(kept_bytes, settings.least_kept_bytes))
    if topic.is_deleted_by_policy and topic.retention_ms >= 0:
        span_ms = max(topic.retention_ms / RETAINED_SEGMENTS, settings.least_span_ms)
    return Limits(max(segment_bytes, 1), span_ms)
