"""The rules and dashboards of deploy/monitoring in real Prometheus, over a real gateway."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient
from harness import install, prometheus
from harness.broker import LocalBroker, start
from harness.install import MissingTool
from harness.prometheus import JOB
from monitoring.cases import CASES
from monitoring.firing import (
    MONITORING,
    PATIENCE_SECONDS,
    admin_of,
    becomes,
    shortened,
)

from tests.worlds.greetings import consume, produce

WINDOW: Final = "10s"
PARTS: Final = ("_bucket", "_sum", "_count")


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder with prometheus and promtool."""
    try:
        return install.prometheus()
    except MissingTool as error:
        pytest.skip(f"needs Prometheus: {error}")


@pytest.fixture(scope="module")
def gateway() -> Iterator[LocalBroker]:
    broker = start("tidegate")
    assert isinstance(broker, LocalBroker)
    try:
        yield broker
    finally:
        broker.stop()


def test_each_alert_fires_and_clears_in_promtool(programs: Path) -> None:
    for words in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts.test.yaml"]):
        done = subprocess.run(
            [programs / "promtool", *words],
            cwd=MONITORING,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "SUCCESS" in done.stdout


def test_the_dashboards_are_those_of_their_generator() -> None:
    words = [sys.executable, str(MONITORING / "generate.py"), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def queries() -> dict[str, str]:
    """Return each query of a panel or a variable, with its place."""
    found: dict[str, str] = {}
    for path in sorted((MONITORING / "dashboards").glob("*.json")):
        dashboard = json.loads(path.read_text())
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                found[f"{path.stem}, {panel['title']}, {target['refId']}"] = target["expr"]
        for each in dashboard["templating"]["list"]:
            if each["type"] == "query":
                metric = re.fullmatch(r"label_values\((.*), \w+\)", each["query"])
                assert metric is not None
                found[f"{path.stem}, ${each['name']}"] = metric[1]
    return found


def resolved(query: str) -> str:
    """Return a query as Grafana sends it if all values of all variables are chosen."""
    query = query.replace("$__rate_interval", WINDOW).replace("$job", JOB)
    query = re.sub(r"\$(?:topic|consumergroup)\b", ".+", query)
    assert "$" not in query
    return query


def unserved(query: str, served: set[str]) -> list[str]:
    """Return the metrics of a query that a gateway's page does not have."""
    named = re.findall(r"\b(?:tidegate|kafka|process)_\w+", query)
    return [
        each
        for each in named
        if not any(each.removesuffix(part) in served for part in ("", *PARTS))
    ]


def served_by(broker: LocalBroker) -> set[str]:
    with urllib.request.urlopen(f"http://{admin_of(broker)}/metrics", timeout=60) as answer:
        return set(re.findall(r"^# TYPE (\S+) ", answer.read().decode(), re.MULTILINE))


def test_each_query_of_a_panel_finds_something(programs: Path, gateway: LocalBroker) -> None:
    load(gateway)
    served = served_by(gateway)
    lacking = {place: unserved(query, served) for place, query in queries().items()}
    assert {place: each for place, each in lacking.items() if each} == {}
    assert len(lacking) > 80
    with prometheus.running(admin_of(gateway)) as server:
        empty = dict(queries())

        def all_answer() -> bool:
            load(gateway)
            for place, query in list(empty.items()):
                if server.query(resolved(query)):
                    del empty[place]
            return not empty

        try:
            becomes(all_answer)
        finally:
            assert empty == {}


def load(gateway: LocalBroker) -> None:
    """Write and read as a group, and ask for a topic that is not there."""
    produce(gateway.bootstrap, *map(str, range(100)))
    produce(gateway.bootstrap, 100_000 * "x")  # too large for the metadata log
    consume(gateway.bootstrap, 1)
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap})
    answer = admin.delete_topics(["missing"])["missing"]
    assert answer.exception(PATIENCE_SECONDS) is not None


def test_a_metric_that_no_gateway_has_is_noticed(programs: Path, gateway: LocalBroker) -> None:
    served = served_by(gateway)
    assert unserved("sum(rate(tidegate_produce_seconds_bucket[5m]))", served) == []
    assert unserved("max(tidegate_made_up) + tidegate_ready", served) == ["tidegate_made_up"]


# The other cases take longer.  `run alerts` runs all.
@pytest.mark.parametrize("case", ["lost-gateway-and-lagging-group", "cut-off"])
def test_alerts_fire_and_clear_for_real(programs: Path, case: str) -> None:
    CASES[case]()


def test_a_rule_whose_bound_is_not_known_is_noticed() -> None:
    rules = (MONITORING / "alerts.yaml").read_text()
    with pytest.raises(ValueError, match="the rules have no _lag_seconds"):
        shortened(rules.replace("_lag_seconds) > 300", "_lag_seconds) > 301"))


def test_no_rule_waits_for_minutes_in_a_test() -> None:
    rules = shortened((MONITORING / "alerts.yaml").read_text())
    assert re.findall(r"\b\d+[mh]\b", rules) == []
