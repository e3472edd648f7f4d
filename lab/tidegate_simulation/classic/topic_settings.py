"""The configs of a topic as Kafka 4.3 has them: names, defaults, what each accepts.  Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

MAX_MESSAGE_BYTES: Final = "max.message.bytes"
LOG_APPEND_TIME: Final = "LogAppendTime"
_INT_MAX: Final = 2**31 - 1
_LONG_MAX: Final = 2**63 - 1
_BOOLEAN, _STRING, _INT, _LONG, _DOUBLE, _LIST = 1, 2, 3, 5, 6, 7
_BOOLEANS: Final = ("true", "false")
_CODECS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")


class Kind(NamedTuple):
    """default: as text.  accepts: whether a text is a value.  type_code: for DescribeConfigs."""

    default: str
    accepts: Callable[[str], bool]
    type_code: int

    @property
    def is_list(self) -> bool:
        """Return whether APPEND and SUBTRACT work."""
        return self.type_code == _LIST


def _number(default: int, lowest: int, highest: int, type_code: int) -> Kind:
    def accepts(text: str) -> bool:
        try:
            return lowest <= int(text) <= highest
        except ValueError:
            return False

    return Kind(str(default), accepts, type_code)


def _int(default: int, lowest: int = 0) -> Kind:
    return _number(default, lowest, _INT_MAX, _INT)


def _long(default: int, lowest: int = 0) -> Kind:
    return _number(default, lowest, _LONG_MAX, _LONG)


def _choice(default: str, choices: tuple[str, ...]) -> Kind:
    type_code = _BOOLEAN if choices == _BOOLEANS else _STRING
    return Kind(default, choices.__contains__, type_code)


def _list(default: str, choices: tuple[str, ...] = ()) -> Kind:
    def accepts(text: str) -> bool:
        return not choices or set(text.split(",")) <= set(choices)

    return Kind(default, accepts, _LIST)


def _is_ratio(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


KINDS: Final[dict[str, Kind]] = {
    "cleanup.policy": _list("delete", ("delete", "compact")),
    "compression.gzip.level": _int(-1, -1),
    "compression.lz4.level": _int(9, 1),
    "compression.type": _choice("producer", _CODECS),
    "compression.zstd.level": _int(3, -131072),
    "delete.retention.ms": _long(86_400_000),
    "file.delete.delay.ms": _long(60_000),
    "flush.messages": _long(_LONG_MAX, 1),
    "flush.ms": _long(_LONG_MAX),
    "follower.replication.throttled.replicas": _list(""),
    "index.interval.bytes": _int(4096),
    "leader.replication.throttled.replicas": _list(""),
    "local.retention.bytes": _long(-2, -2),
    "local.retention.ms": _long(-2, -2),
    "max.compaction.lag.ms": _long(_LONG_MAX, 1),
    MAX_MESSAGE_BYTES: _int(1_048_588),
    "message.timestamp.after.max.ms": _long(3_600_000),
    "message.timestamp.before.max.ms": _long(_LONG_MAX),
    "message.timestamp.type": _choice("CreateTime", ("CreateTime", LOG_APPEND_TIME)),
    "min.cleanable.dirty.ratio": Kind("0.5", _is_ratio, _DOUBLE),
    "min.compaction.lag.ms": _long(0),
    "min.insync.replicas": _int(1, 1),
    "preallocate": _choice("false", _BOOLEANS),
    "remote.log.copy.disable": _choice("false", _BOOLEANS),
    "remote.log.delete.on.disable": _choice("false", _BOOLEANS),
    "remote.storage.enable": _choice("false", _BOOLEANS),
    "retention.bytes": _long(-1, -(2**63)),
    "retention.ms": _long(604_800_000, -1),
    "segment.bytes": _int(1_073_741_824, 1_048_576),
    "segment.index.bytes": _int(10_485_760, 4),
    "segment.jitter.ms": _long(0),
    "segment.ms": _long(604_800_000, 1),
    "unclean.leader.election.enable": _choice("false", _BOOLEANS),
}


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The settings that a leader looks at when it appends."""

    max_message_bytes: int = 1_048_588
    is_compacted: bool = False
    uses_append_time: bool = False
    before_max_ms: int = _LONG_MAX
    after_max_ms: int = 3_600_000
    min_insync_replicas: int = 1
    segment_bytes: int = 1_073_741_824


def settings_of(configs: Mapping[str, str]) -> TopicSettings:
    """Return the settings of a topic with these configs; the others have their default."""

    def value(name: str) -> str:
        return configs.get(name, KINDS[name].default)

    return TopicSettings(
        max_message_bytes=int(value(MAX_MESSAGE_BYTES)),
        is_compacted="compact" in value("cleanup.policy").split(","),
        uses_append_time=value("message.timestamp.type") == LOG_APPEND_TIME,
        before_max_ms=int(value("message.timestamp.before.max.ms")),
        after_max_ms=int(value("message.timestamp.after.max.ms")),
        min_insync_replicas=int(value("min.insync.replicas")),
        segment_bytes=int(value("segment.bytes")),
    )


class InvalidConfig(Exception):
    """A config that Kafka refuses.  Answer INVALID_CONFIG."""


def check_config(name: str, value: str) -> None:
    """Check one config of a topic.

    Raises:
      InvalidConfig: Kafka has no such config, or it does not take the value.
    """
    kind = KINDS.get(name)
    if kind is None:
        raise InvalidConfig(f"Unknown topic config name: {name}")
    if not kind.accepts(value):
        raise InvalidConfig(f"Invalid value {value} for configuration {name}")
