"""A topic's settings for the produce path and the housekeeper, compiled once from its configs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from .definition import Definition, Value
from .effective import BrokerLayers, OnWrong, ignore, own_config_text
from .topic_configs import TOPIC_CONFIGS
from .validation import parse


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """Kafka's topic configs with a meaning here, typed.  Cache it while topic and layers stay.

    retention_ms, retention_bytes: -1 for no limit; they count only if is_deleted_by_policy.  An
    empty cleanup.policy keeps everything.
    """

    max_message_bytes: int
    timestamp_type_is_append: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    compression_type: str
    gzip_level: int
    lz4_level: int
    zstd_level: int
    is_compacted: bool
    is_deleted_by_policy: bool
    retention_ms: int
    retention_bytes: int
    segment_bytes: int
    delete_retention_ms: int
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float


def compile_topic_settings(
    configs: Mapping[str, str], layers: BrokerLayers, on_wrong: OnWrong = ignore
) -> TopicSettings:
    """Return a topic's settings, given what is set on the topic and on one gateway.

    Never fails, because produce requests and the housekeeper ask all the time.  on_wrong: called
    for each value that passed the rules of an earlier release, but does not pass these.
    """
    return compile_with(configs, partial(layers.default_of, on_wrong=on_wrong), on_wrong)


def compile_with(
    configs: Mapping[str, str], default_of: Callable[[Definition], str | None], on_wrong: OnWrong
) -> TopicSettings:
    """Do the same with a function for the values that the topic does not set."""

    def value(name: str) -> Value:
        text = own_config_text(configs, name, on_wrong)
        text = default_of(TOPIC_CONFIGS[name]) if text is None else text
        assert text is not None, name
        return parse(TOPIC_CONFIGS[name], text)

    def number(name: str) -> int:
        return int(str(value(name)))

    policy = value("cleanup.policy")
    assert isinstance(policy, tuple)
    return TopicSettings(
        max_message_bytes=number("max.message.bytes"),
        timestamp_type_is_append=value("message.timestamp.type") == "LogAppendTime",
        timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
        timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
        compression_type=str(value("compression.type")),
        gzip_level=number("compression.gzip.level"),
        lz4_level=number("compression.lz4.level"),
        zstd_level=number("compression.zstd.level"),
        is_compacted="compact" in policy,
        is_deleted_by_policy="delete" in policy,
        retention_ms=number("retention.ms"),
        retention_bytes=number("retention.bytes"),
        segment_bytes=number("segment.bytes"),
        delete_retention_ms=number("delete.retention.ms"),
        min_compaction_lag_ms=number("min.compaction.lag.ms"),
        max_compaction_lag_ms=number("max.compaction.lag.ms"),
        min_cleanable_dirty_ratio=float(str(value("min.cleanable.dirty.ratio"))),
    )
