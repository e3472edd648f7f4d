"""The rules of deploy/monitoring, their tests and their page name the same alerts and metrics.

compat-tests/tests/operators/test_monitoring.py runs them in Prometheus.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[3]
MONITORING = ROOT / "deploy" / "monitoring"
RULES = (MONITORING / "alerts.yaml").read_text()
TESTS = (MONITORING / "alerts.test.yaml").read_text()
PAGE = (ROOT / "docs" / "operations" / "alerts.md").read_text()
METRICS = "".join(
    (ROOT / "docs" / "operations" / page).read_text() for page in ("metrics.md", "processes.md")
)
ALERTS = re.findall(r"^ +- alert: (\w+)$", RULES, re.MULTILINE)
# The endings of a histogram's series.
PARTS = re.compile(r"_(?:bucket|sum|count)$")


def test_each_alert_has_its_own_part_of_the_page() -> None:
    sections = [each.partition("\n") for each in PAGE.split("\n### ")[1:]]
    parts = {name: text.partition("\n## ")[0] for name, _, text in sections}
    assert len(ALERTS) == len(set(ALERTS)) > 20
    assert [*parts] == ALERTS
    assert [name for name, text in parts.items() if len(text.split()) < 8] == []
    runbooks = re.findall(r"^ +runbook: docs/operations/alerts\.md#(\w+)$", RULES, re.MULTILINE)
    assert runbooks == [each.lower() for each in ALERTS]


def test_each_alert_is_shown_to_fire_and_to_clear() -> None:
    outcomes: dict[str, set[bool]] = defaultdict(set)
    for text in re.split(r"^  # ", TESTS, flags=re.MULTILINE)[1:]:
        alert = re.split(r"\W", text, maxsplit=1)[0]
        fired = re.findall(r"alertname=\"(\w+)\"\}'\n +value: 1\n", text)
        assert set(fired) <= {alert}
        outcomes[alert] |= {bool(each) for each in fired}
        last = text.rstrip().splitlines()[-1].strip()
        outcomes[alert] |= {False} if last == "exp_samples: []" else set()
    assert [*outcomes] == ALERTS
    assert [alert for alert, each in outcomes.items() if each != {True, False}] == []


def test_the_metrics_of_rules_are_documented() -> None:
    named = set(re.findall(r"\b(?:tidegate|kafka)_\w+", "".join(expressions())))
    listed = set(re.findall(r"^\| `(\w+)` \|", METRICS, re.MULTILINE))
    assert len(named) > 20
    assert sorted(PARTS.sub("", each) for each in named if PARTS.sub("", each) not in listed) == []


def expressions() -> list[str]:
    """Return the expr of each alert."""
    found = re.findall(r"^        expr: (.*\n(?: {10}.*\n)*)", RULES, re.MULTILINE)
    assert len(found) == len(ALERTS)
    return found
