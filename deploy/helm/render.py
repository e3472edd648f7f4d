"""Renders the chart's examples.

    python deploy/helm/render.py             # writes rendered/, which has one of them
    python deploy/helm/render.py FOLDER      # writes all, to compare before and after a change
    python deploy/helm/render.py --json      # reads a list of values, prints a list of results

It uses Helm's own code (helm-python-sdk, of the extra `deploy`), and no cluster.  Results of --json
are {"files": {template: text}} or {"error": message of Helm}.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import yaml
from helm_python import Chart, HelmError

HERE = Path(__file__).parent
CHART = HERE / "tidegate"
RENDERED = HERE / "rendered"
# The rendered example that is in git, so that a review sees the effect of a change of the chart.
SHOWN = "postgres-s3.yaml"


def main() -> None:
    parser = argparse.ArgumentParser(description="Render the chart's examples")
    parser.add_argument("folder", nargs="?", type=Path, help="where to write all of them")
    parser.add_argument("--json", action="store_true", help="read values from standard input")
    options = parser.parse_args()
    with Chart.load(CHART) as chart:
        if options.json:
            print(json.dumps([result(chart, each) for each in json.load(sys.stdin)]))
        elif options.folder:
            write(chart, options.folder, "*.yaml")
        else:
            write(chart, RENDERED, SHOWN)


def write(chart: Chart, folder: Path, names: str) -> None:
    """Render the examples of a pattern into a folder."""
    folder.mkdir(exist_ok=True)
    for path in (CHART / "examples").glob(names):
        values = yaml.safe_load(path.read_text())
        (folder / path.name).write_text(joined(rendered(chart, values)))


def rendered(chart: Chart, values: dict[str, Any]) -> dict[str, str]:
    """Return the text that Helm renders from each template, without templates that render nothing.

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
    """Return one text of all files.  The chart's notes come last, as comments."""
    notes = files.get("NOTES.txt", "")
    parts = [
        f"---\n# {name}\n{text.strip()}\n" for name, text in files.items() if name != "NOTES.txt"
    ]
    said = "".join(f"# {line}".rstrip() + "\n" for line in notes.strip().splitlines())
    return "".join(parts) + f"---\n# NOTES.txt\n{said}"


if __name__ == "__main__":
    main()
