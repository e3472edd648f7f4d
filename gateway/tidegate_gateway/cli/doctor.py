"""`tidegate doctor`: a line per finding, and an exit code."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from tidegate_runtime.log_lines import configure_logs

from ..tools.doctor import examine
from ..tools.doctor_security import command_line_finding
from ..tools.findings import Checked
from .options import DEV_DATA, SERVE_DATA
from .output.table import mark
from .output.telling import was_told
from .serve import serve_settings

COLUMNS: Final = 100
_INDENT: Final = 24


def run_doctor(
    config: Path | None,
    properties: Path | None,
    data: Path | None,
    assignments: Sequence[str],
    *,
    as_json: bool,
) -> int:
    """Run all checks and print the findings; return 0 if there is no problem, 1 otherwise.

    Args:
      data: None for the folder of `serve`, or of `dev` if only `dev` ran here.
    """
    configure_logs("error")
    findings: list[Checked] = []

    def report(checked: Checked) -> None:
        findings.append(checked)
        if not as_json:
            print(_line(checked), flush=True)

    if data is None:
        is_of_dev = not (config or properties or SERVE_DATA.exists()) and DEV_DATA.is_dir()
        data = DEV_DATA if is_of_dev else SERVE_DATA
        if is_of_dev:
            report(Checked("data folder", f"checking {data} of `dev`; --data names another", True))

    try:
        settings = serve_settings(config, properties, data, assignments)
        in_view = command_line_finding(assignments)
        report(in_view)
        all_well = trio.run(examine, settings, data, report) and in_view.ok
    except Exception as error:
        if not was_told(error):
            raise
        return 1
    print(_json(findings, all_well) if as_json else _summary(findings))
    return 0 if all_well else 1


def _line(checked: Checked) -> str:
    """Return the lines of a finding; a word may be wider than COLUMNS."""
    head = f"{mark(checked.ok)}  {checked.area:<14}  "
    rows = [*_wrapped(checked.what), *_wrapped(checked.advice)]
    return head + f"\n{'':{_INDENT}}".join(rows)


def _wrapped(text: str) -> list[str]:
    width = COLUMNS - _INDENT
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _summary(findings: Sequence[Checked]) -> str:
    problems = sum(not each.ok for each in findings)
    if not problems:
        return f"{len(findings)} checks, no problem."
    return f"{len(findings)} checks, {problems} with a problem."


def _json(findings: Sequence[Checked], all_well: bool) -> str:
    rows = [each._asdict() for each in findings]
    return json.dumps({"ok": all_well, "checks": rows})
