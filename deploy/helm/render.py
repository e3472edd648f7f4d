"""Renders the chart's examples into rendered/, where a review sees what a change of the chart does.

    python deploy/helm/render.py             # writes rendered/
    python deploy/helm/render.py --check     # exit code 1 if rendered/ is not what the chart makes
    python deploy/helm/render.py --json      # reads a list of values, prints a list of results

It uses Helm's own code (helm-python-sdk, of the extra `deploy`), and no cluster.  Results of --json
are {"files": {template: text}} or {"error": message of Helm}.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml
from helm_python import Chart, HelmError

HERE = Path(__file__).parent
CHART = HERE / "tidegate"
RENDERED = HERE / "rendered"


def main(arguments: list[str]) -> int:
    with Chart.load(CHART) as chart:
        if "--json" in arguments:
            print(json.dumps([result(chart, each) for each in json.load(sys.stdin)]))
            return 0
        texts = {
            RENDERED / path.name: joined(rendered(chart, yaml.safe_load(path.read_text())))
            for path in sorted((CHART / "examples").glob("*.yaml"))
        }
    if "--check" in arguments:
        return checked(texts)
    RENDERED.mkdir(exist_ok=True)
    for path in set(RENDERED.iterdir()) - texts.keys():
        path.unlink()
    for path, text in texts.items():
        path.write_text(text)
    return 0


def checked(texts: dict[Path, str]) -> int:
    """Return 1, and name the files, if rendered/ has others than these."""
    there = {path: path.read_text() for path in RENDERED.iterdir()}
    differing = sorted(
        path.name for path in there.keys() | texts.keys() if there.get(path) != texts.get(path)
    )
    for name in differing:
        print(f"rendered/{name} is not what the chart makes: run python deploy/helm/render.py")
    return 1 if differing else 0


def rendered(chart: Chart, values: dict[str, Any]) -> dict[str, str]:
    """Return what Helm makes of values: template -> text; without templates that make nothing.

    Raises:
      HelmError: values.schema.json or a check of the chart refuses the values.
    """
    chart.validate_schema(values)
    found = chart.render(values, name="tidegate", namespace="kafka")
    named = {name.removeprefix("tidegate/templates/"): text for name, text in found.items()}
    return {name: text for name, text in sorted(named.items()) if text.strip()}


def result(chart: Chart, values: dict[str, Any]) -> dict[str, Any]:
    """Return one answer of --json."""
    try:
        return {"files": rendered(chart, values)}
    except HelmError as error:
        return {"error": str(error)}


def joined(files: dict[str, str]) -> str:
    """Return one text of all files, the notes for people last and as comments."""
    notes = files.get("NOTES.txt", "")
    parts = [
        f"---\n# {name}\n{text.strip()}\n" for name, text in files.items() if name != "NOTES.txt"
    ]
    said = "".join(f"# {line}".rstrip() + "\n" for line in notes.strip().splitlines())
    return "".join(parts) + f"---\n# NOTES.txt\n{said}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
