"""How large segments are.  Pure."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from tidegate_coordination.configs.topic_settings import TopicSettings

# What retention keeps of a topic is at least so many segments.
RETAINED_SEGMENTS = 8


@dataclass(frozen=True, slots=True)
class MergeSettings:
    """Sizes in bytes, times in ms of log time.

    segment_bytes: of a full segment.  rest_ms: younger runs are left alone.  patience_ms: older
    ones are merged however few they are.  min_parts: enough to merge sooner.  task_bytes: of all
    units that one task does; also about the memory it takes.  map_bytes: of the newest offsets of
    keys, while compacting.  least_kept_bytes, least_span_ms: of a segment, however little
    retention keeps: else each run would be one, and a PUT.
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
    """Of a segment of one topic: its bytes, and the time between its oldest and newest records."""

    segment_bytes: int
    span_ms: float


def limits_of(settings: MergeSettings, topic: TopicSettings) -> Limits:
    """Retention deletes whole segments, so they are a small part of what is retained.

    But they are not so small that there is hardly anything in them.
    """
    segment_bytes = min(settings.segment_bytes, topic.segment_bytes)
    span_ms = inf
    if topic.is_deleted_by_policy and topic.retention_bytes >= 0:
        kept_bytes = topic.retention_bytes // RETAINED_SEGMENTS
        segment_bytes = min(segment_bytes, max(kept_bytes, settings.least_kept_bytes))
    if topic.is_deleted_by_policy and topic.retention_ms >= 0:
        span_ms = max(topic.retention_ms / RETAINED_SEGMENTS, settings.least_span_ms)
    return Limits(max(segment_bytes, 1), span_ms)
