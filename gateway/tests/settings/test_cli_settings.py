"""Settings from files, environment and arguments: which source wins, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.settings.settings_sources import from_environment, gather
from tidegate_runtime.settings_texts import BadSource


def gathered(**sources: object) -> BrokerSettings:
    given: dict[str, object] = {"defaults": {}, "environ": {}, "assignments": []}
    return gather(**(given | sources))  # type: ignore[arg-type]


def test_later_sources_win(tmp_path: Path) -> None:
    toml_file, properties_file = tmp_path / "t.toml", tmp_path / "server.properties"
    names = ["num.partitions", "log.retention.ms", "node.id", "message.max.bytes", "broker.rack"]
    toml_file.write_text("".join(f'"{name}" = "2"\n' for name in names[1:]))
    properties_file.write_text("".join(f"{name}=3\n" for name in names[2:]))

    settings = gathered(
        defaults=dict.fromkeys(names, "1"),
        toml_file=toml_file,
        properties_file=properties_file,
        environ={"TIDEGATE_MESSAGE_MAX_BYTES": "4", "TIDEGATE_BROKER_RACK": "4"},
        assignments=["broker.rack=5"],
    )

    assert [settings.text(name) for name in names] == ["1", "2", "3", "4", "5"]


def test_environment_in_both_spellings() -> None:
    environ = {
        "KAFKA_NODE_ID": "3",
        "KAFKA_NUM_PARTITIONS": "3",
        "KAFKA_HEAP_OPTS": "-Xmx1g",
        "TIDEGATE_NODE_ID": "4",
        "PATH": "/bin",
    }
    assert from_environment(environ) == {"node.id": "4", "num.partitions": "3"}


def test_the_gateway_skips_settings_of_the_pipeline() -> None:
    environ = {"TIDEGATE_PIPELINE_LOG": "sqlite:x", "TIDEGATE_NODE_ID": "4"}
    assert from_environment(environ) == {"node.id": "4"}
    with pytest.raises(BadSource, match="TIDEGATE_PIPELINES names no setting"):
        from_environment({"TIDEGATE_PIPELINES": "x"})


# The variables that kubelet sets for the Services `tidegate` (ports 9092 "kafka" and 9644),
# `tidegate-headless` and `tidegate-pipeline` of a pod's namespace.
SERVICE_LINKS = {
    "TIDEGATE_SERVICE_HOST": "10.96.0.17",
    "TIDEGATE_SERVICE_PORT": "9092",
    "TIDEGATE_SERVICE_PORT_KAFKA": "9092",
    "TIDEGATE_SERVICE_PORT_ADMIN_HTTP": "9644",
    "TIDEGATE_PORT": "tcp://10.96.0.17:9092",
    "TIDEGATE_PORT_9092_TCP": "tcp://10.96.0.17:9092",
    "TIDEGATE_PORT_9092_TCP_PROTO": "tcp",
    "TIDEGATE_PORT_9092_TCP_PORT": "9092",
    "TIDEGATE_PORT_9092_TCP_ADDR": "10.96.0.17",
    "TIDEGATE_PORT_53_UDP": "udp://10.96.0.17:53",
    "TIDEGATE_HEADLESS_SERVICE_HOST": "fd00::17",
    "TIDEGATE_HEADLESS_SERVICE_PORT": "9092",
    "TIDEGATE_HEADLESS_PORT": "tcp://[fd00::17]:9092",
    "TIDEGATE_HEADLESS_PORT_9092_TCP_ADDR": "fd00::17",
    "TIDEGATE_PIPELINE_SERVICE_HOST": "10.96.0.18",
    "KAFKA_SERVICE_HOST": "10.96.0.19",
    "KAFKA_PORT": "tcp://10.96.0.19:9092",
}


def test_the_gateway_skips_the_service_links_of_kubernetes() -> None:
    assert from_environment(SERVICE_LINKS | {"TIDEGATE_NODE_ID": "4"}) == {"node.id": "4"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("TIDEGATE_PORT", "9092"),
        ("TIDEGATE_SERVICE_PORT", "many"),
        ("TIDEGATE_SERVICE_HOST", ""),
        ("TIDEGATE_PORT_9092", "tcp://10.96.0.17:9092"),
        ("TIDEGATE_PORT_9092_TCP", "9092"),
        ("TIDEGATE_SERVICES_HOST", "10.96.0.17"),
    ],
)
def test_a_variable_that_only_resembles_a_service_link_is_refused(name: str, text: str) -> None:
    with pytest.raises(BadSource, match=f"environment: {name} names no setting"):
        from_environment({name: text})


def test_unknown_names_are_refused_with_the_nearest(tmp_path: Path) -> None:
    properties_file = tmp_path / "server.properties"
    properties_file.write_text("num.partition=3")
    toml_file = tmp_path / "t.toml"
    toml_file.write_text("[wal]\nlinger.msec = 3")

    with pytest.raises(BadSource, match=r"--set: unknown .* did you mean num\.partitions\?"):
        gathered(assignments=["nmu.partitions=3"])
    with pytest.raises(BadSource, match=r"TIDEGATE_LISTENER names .* did you mean listeners\?"):
        gathered(environ={"TIDEGATE_LISTENER": "x"})
    with pytest.raises(BadSource, match=r"properties: unknown .* did you mean num\.partitions\?"):
        gathered(properties_file=properties_file)
    with pytest.raises(BadSource, match=r"t\.toml: unknown .* did you mean wal\.linger\.ms\?"):
        gathered(toml_file=toml_file)


def test_removed_names_are_taken_from_every_source(tmp_path: Path) -> None:
    properties_file = tmp_path / "server.properties"
    properties_file.write_text("disk.cache.send.min.bytes=1")
    settings = gathered(
        properties_file=properties_file,
        environ={"TIDEGATE_FORWARDING_AFTER_LOST_RACES": "1"},
        assignments=["wal.efficient.object.bytes=1"],
    )
    assert settings.removed == [
        "disk.cache.send.min.bytes",
        "forwarding.after.lost.races",
        "wal.efficient.object.bytes",
    ]


def test_values_are_checked() -> None:
    with pytest.raises(BadSource, match=r"Invalid value many for configuration num\.partitions"):
        gathered(assignments=["num.partitions=many"])


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    binary, huge = tmp_path / "binary", tmp_path / "huge"
    binary.write_bytes(b"\xff\xfe")
    huge.write_bytes(b"#" * ((1 << 20) + 1))
    for path, reason in (
        (tmp_path / "missing", "No such file"),
        (tmp_path, "Is a directory"),
        (binary, "not UTF-8"),
        (huge, "larger than"),
    ):
        with pytest.raises(BadSource, match=reason):
            gathered(properties_file=path)


@pytest.mark.parametrize(
    ("name", "content", "is_hinted"),
    [
        ("server.properties", "listeners=PLAINTEXT://:9092\n", True),
        ("server.conf", "num.partitions=3\nlisteners=PLAINTEXT://:9092\n", True),
        ("broken.toml", "[wal\n", False),
    ],
)
def test_a_server_properties_that_is_given_as_toml_is_told_its_option(
    tmp_path: Path, name: str, content: str, is_hinted: bool
) -> None:
    file = tmp_path / name
    file.write_text(content)
    with pytest.raises(BadSource, match="is not TOML") as refused:
        gathered(toml_file=file)
    assert ("with --properties" in str(refused.value)) is is_hinted
