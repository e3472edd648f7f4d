"""docs/operations/dashboards.md is true about the queries of other dashboards that find data here.

compat-tests/tests/operators/test_monitoring.py runs the queries of our own dashboards.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests.worlds.app_world import started_gateway
from tidegate_gateway.admin.metrics import gateway_metrics
from tidegate_runtime.prometheus import render

PAGE = Path(__file__).parents[3] / "docs" / "operations" / "dashboards.md"
ROW = re.compile(r"^\| [^|]+ \| `(\w+)` \|", re.MULTILINE)


async def test_the_metrics_of_other_dashboards_are_here_or_listed_as_missing() -> None:
    async with started_gateway() as gateway:
        text = (await render(gateway_metrics(gateway))).decode()
    served = set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
    _, *parts = re.split(r"^These (?=queries answer|do not answer)", PAGE.read_text(), flags=re.M)
    assert len(parts) == 4
    answered = [each for part in parts if part.startswith("queries") for each in ROW.findall(part)]
    missing = [each for part in parts if part.startswith("do not") for each in ROW.findall(part)]
    assert len(answered) > 20
    assert len(missing) > 10
    assert [each for each in answered if each not in served] == []
    assert [each for each in missing if each in served] == []
