"""Writes the dashboards for Grafana, dashboards/*.json, from the lists of panels.py.

    python deploy/monitoring/generate.py [--check]

compat-tests/tests/operators/test_monitoring.py runs every query in Prometheus.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from panels import DASHBOARDS, Dashboard, Panel, Variable
from queries import MINE

FOLDER: Final = Path(__file__).parent / "dashboards"
WIDTH: Final = 24
PANEL_WIDTH: Final = 8
PANEL_HEIGHT: Final = 8
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


def text_of(dashboard: Dashboard) -> str:
    """Return a dashboard as Grafana reads it."""
    chosen = [Variable("job", "tidegate_ready"), *dashboard.variables]
    source = {"name": "datasource", "type": "datasource", "query": "prometheus"}
    whole = {
        "uid": dashboard.name,
        "title": dashboard.title,
        "tags": ["tidegate"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [source, *map(_variable, chosen)]},
        "panels": [_panel(*each) for each in enumerate(dashboard.panels)],
    }
    return json.dumps(whole, indent=2) + "\n"


def _variable(variable: Variable) -> dict[str, object]:
    selector = "" if variable.name == "job" else f"{{{MINE}}}"
    return {
        "name": variable.name,
        "type": "query",
        "datasource": SOURCE,
        "query": f"label_values({variable.metric}{selector}, {variable.name})",
        "includeAll": True,
        "allValue": ".+",
        "multi": True,
        "refresh": 2,
        "sort": 1,
    }


def _panel(index: int, panel: Panel) -> dict[str, object]:
    row, column = divmod(index, WIDTH // PANEL_WIDTH)
    return {
        "id": index + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.text,
        "datasource": SOURCE,
        "gridPos": {
            "x": column * PANEL_WIDTH,
            "y": row * PANEL_HEIGHT,
            "w": PANEL_WIDTH,
            "h": PANEL_HEIGHT,
        },
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + at), "datasource": SOURCE, "expr": query, "legendFormat": text}
            for at, (text, query) in enumerate(panel.queries.items())
        ],
    }


def files() -> Iterator[tuple[Path, str]]:
    """Yield each file with its text."""
    for each in DASHBOARDS:
        yield FOLDER / f"{each.name}.json", text_of(each)


def main() -> int:
    """Write the files; with --check, name those that differ."""
    if sys.argv[1:] == ["--check"]:
        old = [path.name for path, text in files() if not path.exists() or path.read_text() != text]
        for name in old:
            print(f"{name} differs: run deploy/monitoring/generate.py", file=sys.stderr)
        return 1 if old else 0
    FOLDER.mkdir(exist_ok=True)
    for path, text in files():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
