"""The settings of several gateways on one machine, their restarts, and their page of metrics."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidegate_gateway.cli.processes.metric_pages import SupervisedProcess, merged
from tidegate_gateway.cli.processes.plan import (
    check_processes,
    data_of,
    process_count,
    settings_of,
)
from tidegate_gateway.cli.processes.restarts import Restarts
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_runtime.settings_texts import BadSource

WHOLE = {
    "node.id": "100",
    "listeners": "A://[::1]:9092, B://0.0.0.0:9192",
    "advertised.listeners": "A://one:9092,B://one:30000",
    "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
    "peer.listener": "10.0.0.1:9999",
    "admin.listener": "0.0.0.0:9644",
    "admin.security.protocol": "SSL",
    "disk.cache.dir": "/cache",
    "audit.log.file": "/var/audit.log",
    "instance.key": "key",
    "admin.token": "secret",
    "broker.rack": "az-1",
}


def test_the_first_keeps_what_the_settings_say() -> None:
    found = settings_of(BrokerSettings(WHOLE), 1)
    changed = {name for name, text in WHOLE.items() if found.static.get(name) != text}
    assert changed == {"admin.listener", "admin.security.protocol", "admin.token"}
    assert found.text("admin.listener") == "127.0.0.1:0"
    assert found.secret("admin.token").reveal() == "secret"
    assert data_of(Path("d"), 1) == Path("d")


def test_the_others_have_ports_ids_and_folders_of_their_own() -> None:
    found = settings_of(BrokerSettings(WHOLE), 3)
    assert found.int("node.id") == 102
    assert found.text("listeners") == "A://[::1]:9094, B://0.0.0.0:9194"
    assert found.text("advertised.listeners") == "A://one:9094,B://one:30002"
    assert found.text("peer.listener") == "10.0.0.1:10001"
    assert found.text("disk.cache.dir") == "/cache/process-3"
    assert found.text("audit.log.file") == "/var/audit-process-3.log"
    assert found.text("instance.key") == "key-3"
    assert found.text("broker.rack") == "az-1"
    assert data_of(Path("d"), 3) == Path("d/process-3")


@pytest.mark.parametrize("name", ["audit.log", "audit", "audit.2026.json"])
def test_no_process_writes_where_logrotate_moves_the_file_of_the_first(name: str) -> None:
    """logrotate renames audit.log to audit.log.1, audit.log.1 to audit.log.2, and overwrites."""
    settings = BrokerSettings({"audit.log.file": f"/var/log/{name}"})
    files = [settings_of(settings, each).text("audit.log.file") for each in range(1, 5)]
    assert len(set(files)) == 4
    assert all(each.startswith("/var/log/audit") for each in files)
    assert not [each for each in files[1:] if each.startswith(f"{files[0]}.")]


def test_any_free_port_stays_any_free_port() -> None:
    texts = {"listeners": "PLAINTEXT://127.0.0.1:0", "peer.listener": "127.0.0.1:0"}
    found = settings_of(BrokerSettings(texts), 2)
    assert {name: found.text(name) for name in texts} == texts
    assert not found.text("admin.listener")
    check_processes(BrokerSettings(texts), 8)


@pytest.mark.parametrize(
    ("texts", "count", "sentence"),
    [
        ({"listeners": "A://:9092,B://:9093"}, 2, "the ports 9092 to 9093, and listeners needs"),
        ({"listeners": "A://:9092", "peer.listener": "h:9090"}, 3, "peer.listener needs those"),
        ({"listeners": "A://:65535"}, 2, "need as many ports from 65535 on"),
        ({"listeners": "A://:9092", "admin.listener": ":9095"}, 4, "admin.listener has 9095"),
    ],
)  # fmt: skip
def test_two_processes_never_share_a_port(texts: dict[str, str], count: int, sentence: str) -> None:
    protocols = {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}
    settings = BrokerSettings(protocols | texts)
    check_processes(settings, 1)
    with pytest.raises(BadSource, match=sentence):
        check_processes(settings, count)


@pytest.mark.parametrize("admin", ["127.0.0.1:9091", "127.0.0.1:9096", "127.0.0.1:0"])
def test_the_admin_pages_may_be_beside_the_ports_of_the_processes(admin: str) -> None:
    texts = {"listeners": "PLAINTEXT://127.0.0.1:9092", "admin.listener": admin}
    check_processes(BrokerSettings(texts), 4)


def test_two_addresses_may_have_the_same_port() -> None:
    protocols = {"listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT"}
    texts = {"listeners": "A://10.0.0.1:9092,B://10.0.0.2:9092"}
    for count in (1, 4):
        check_processes(BrokerSettings(protocols | texts), count)


@pytest.mark.parametrize("text", ["0", "-1", "two", "65", "", "²"])
def test_a_wrong_number_of_processes_is_a_sentence(text: str) -> None:
    with pytest.raises(BadSource, match="give a number up to 64, or auto"):
        process_count(text)


def test_auto_is_one_for_each_core() -> None:
    assert process_count("3") == 3
    assert 1 <= process_count("auto") <= 64


def test_pauses_grow_until_a_process_has_served_for_long() -> None:
    restarts = Restarts()
    pauses = [restarts.pause_after(5) for _ in range(7)]
    assert pauses == [1, 2, 4, 8, 16, 30, 30]
    assert [restarts.pause_after(60), restarts.pause_after(0)] == [1, 2]
    assert restarts.count == 9


PAGE = """# HELP a_total Requests
# TYPE a_total counter
a_total{api="Fetch",text="a { b } 2"} 3.0
a_total{api="Produce"} 4.0
# HELP b Ready
# TYPE b gauge
b 1.0
"""


@pytest.mark.parametrize("name", ["a\u2028b", "a\r# HELP x\rb", "a\x0b\x85\x1cb"])
def test_only_line_feeds_end_lines(name: str) -> None:
    """Clients choose group names, and Prometheus' format escapes no line end but the line feed."""
    page = f'# HELP lag Lag\n# TYPE lag gauge\nlag{{consumergroup="{name}"}} 1\n'
    lines = merged([SupervisedProcess(1, page, 0)]).split("\n")
    assert f'lag{{process="1",consumergroup="{name}"}} 1' in lines
    assert len(lines) == 3 + 6 + 1


def test_the_page_of_all_has_each_family_once() -> None:
    other = PAGE.replace("3.0", "5.0") + "# HELP c Own\n# TYPE c gauge\nc 7.0\n"
    text = merged(
        [
            SupervisedProcess(1, PAGE, 0),
            SupervisedProcess(2, other, 4),
            SupervisedProcess(3, None, 9),
        ]
    )
    families = {each.name: each for each in text_string_to_metric_families(text)}
    samples = [each for family in families.values() for each in family.samples]
    found = {
        (each.name, each.labels["process"], each.labels.get("text", "")): each.value
        for each in samples
    }
    assert found["a_total", "1", "a { b } 2"] == 3
    assert found["a_total", "2", "a { b } 2"] == 5
    assert found["c", "2", ""] == 7
    assert [found["tidegate_process_up", each, ""] for each in "123"] == [1, 1, 0]
    assert [found["tidegate_process_restarts_total", each, ""] for each in "123"] == [0, 4, 9]
    assert len(samples) == 4 + 2 + 1 + 6
    heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads)) == 5
