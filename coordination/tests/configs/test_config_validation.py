"""Every way a config value can be wrong, with the text of Apache Kafka 4.3.1."""

import pytest

from tidegate_coordination.configs.broker_configs import BROKER_CONFIGS
from tidegate_coordination.configs.topic_configs import TOPIC_CONFIGS
from tidegate_coordination.configs.validation import InvalidConfig, parse
from tidegate_coordination.rules.configs import MAX_CONFIG_BYTES, checked_topic_configs

# The left column was sent to a running broker, the right one is its answer.
REFUSED = [
    ("foo", "1", "Unknown topic config name: foo"),
    ("message.format.version", "3.0", "Unknown topic config name: message.format.version"),
    ("retention.ms", "x",
     "Invalid value x for configuration retention.ms: Not a number of type LONG"),
    ("retention.ms", "-2",
     "Invalid value -2 for configuration retention.ms: Value must be at least -1"),
    ("retention.ms", "",
     "Invalid value  for configuration retention.ms: Not a number of type LONG"),
    ("retention.ms", "99999999999999999999",
     "Invalid value 99999999999999999999 for configuration retention.ms: Not a number of type"
     " LONG"),
    ("segment.bytes", "1",
     "Invalid value 1 for configuration segment.bytes: Value must be at least 1048576"),
    ("segment.bytes", "9999999999",
     "Invalid value 9999999999 for configuration segment.bytes: Not a number of type INT"),
    ("cleanup.policy", "foo",
     "Invalid value foo for configuration cleanup.policy: String must be one of: compact, delete"),
    ("cleanup.policy", "delete,", "Configuration 'cleanup.policy' values must not be empty."),
    ("compression.type", "foo",
     "Invalid value foo for configuration compression.type: String must be one of: uncompressed,"
     " zstd, lz4, snappy, gzip, producer"),
    ("compression.gzip.level", "0",
     "Invalid value 0 for configuration compression.gzip.level: Value must be between 1 and 9 or"
     " equal to -1"),
    ("compression.lz4.level", "18",
     "Invalid value 18 for configuration compression.lz4.level: Value must be no more than 17"),
    ("compression.zstd.level", "99",
     "Invalid value 99 for configuration compression.zstd.level: Value must be no more than 22"),
    ("preallocate", "maybe",
     "Invalid value maybe for configuration preallocate: Expected value to be either true or"
     " false"),
    ("min.cleanable.dirty.ratio", "2",
     "Invalid value 2.0 for configuration min.cleanable.dirty.ratio: Value must be no more than 1"),
    ("min.cleanable.dirty.ratio", "x",
     "Invalid value x for configuration min.cleanable.dirty.ratio: Not a number of type DOUBLE"),
    ("message.timestamp.type", "x",
     "Invalid value x for configuration message.timestamp.type: String must be one of: CreateTime,"
     " LogAppendTime"),
    ("min.insync.replicas", "0",
     "Invalid value 0 for configuration min.insync.replicas: Value must be at least 1"),
    ("leader.replication.throttled.replicas", "x",
     "Invalid value [x] for configuration leader.replication.throttled.replicas:"
     " leader.replication.throttled.replicas must be the literal '*' or a list of replicas in the"
     " following format: [partitionId]:[brokerId],[partitionId]:[brokerId],..."),
    ("max.compaction.lag.ms", "0",
     "Invalid value 0 for configuration max.compaction.lag.ms: Value must be at least 1"),
    ("local.retention.ms", "-3",
     "Invalid value -3 for configuration local.retention.ms: Value must be at least -2"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "value", "text"), REFUSED)
def test_refused_with_kafkas_text(name: str, value: str, text: str) -> None:
    with pytest.raises(InvalidConfig) as caught:
        checked_topic_configs({name: value})
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cleanup.policy", ""),
        ("cleanup.policy", "delete,delete"),
        ("cleanup.policy", "delete, compact"),
        ("preallocate", "TRUE"),
        ("retention.ms", " 5 "),
        ("retention.ms", "+5"),
        ("leader.replication.throttled.replicas", "0:1,1:2"),
        ("leader.replication.throttled.replicas", "*"),
        ("min.compaction.lag.ms", "10"),
        ("internal.segment.bytes", "100"),
        ("remote.log.copy.disable", "true"),
        ("remote.storage.enable", "true"),
        ("diskless.enable", "true"),
    ],
)
def test_accepted_and_kept_as_sent(name: str, value: str) -> None:
    assert checked_topic_configs({name: value}) == {name: value}


def test_unknown_names_are_found_before_wrong_values() -> None:
    with pytest.raises(InvalidConfig, match=r"^Unknown topic config name: foo$"):
        checked_topic_configs({"retention.ms": "x", "foo": "1"})


def test_null_values_are_named() -> None:
    text = "^Null value not supported for topic configs: retention.ms$"
    with pytest.raises(InvalidConfig, match=text):
        checked_topic_configs({"retention.ms": None})


def test_lags_must_not_contradict() -> None:
    with pytest.raises(InvalidConfig) as caught:
        checked_topic_configs({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"})
    assert str(caught.value) == (
        "conflict topic config setting min.compaction.lag.ms (10) > max.compaction.lag.ms (5)"
    )


def test_configs_are_bounded() -> None:
    value = ",".join(f"{number}:1" for number in range(20_000))
    assert len(value) > MAX_CONFIG_BYTES
    with pytest.raises(InvalidConfig, match="bytes"):
        checked_topic_configs({"leader.replication.throttled.replicas": value})


def test_secrets_are_not_repeated() -> None:
    assert parse(BROKER_CONFIGS["ssl.key.password"], "secret") == "secret"


@pytest.mark.parametrize("text", ["1" * 5000, "\u0663", "1_000", "0x10", "--1", "nan", "inf"])
def test_digits_are_ascii_and_few(text: str) -> None:
    for name in ("retention.ms", "min.cleanable.dirty.ratio"):
        with pytest.raises(InvalidConfig):
            parse(TOPIC_CONFIGS[name], text)
