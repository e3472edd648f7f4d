"""docs/bounds.md is true: its classes and modules exist, its defaults are those of the settings."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from tidegate_coordination.configs.broker_configs import BROKER_CONFIGS

PAGE = (Path(__file__).parents[3] / "docs" / "bounds.md").read_text()
ROWS = [line.strip("| ").split(" | ") for line in PAGE.splitlines() if line.startswith("| ")][1:]
UNITS = {"": 1, "/s": 1, " MiB": 1 << 20, " GiB": 1 << 30}


def test_every_bound_is_a_class_of_one_of_the_modules() -> None:
    origins = [find_spec(name) for name in re.findall(r"`(tidegate_[a-z_.]+)`", PAGE)]
    sources = [Path(each.origin).read_text() for each in origins if each and each.origin]
    assert len(sources) == len(origins) > 40
    classes = set(re.findall(r"^class (\w+)", "\n".join(sources), re.MULTILINE))
    assert [row[0] for row in ROWS if row[0].split(",")[0] not in classes] == []


def test_settings_of_bounds_exist_and_have_these_defaults() -> None:
    named = re.findall(r"`([a-z]+(?:\.[a-z]+)+)`", " ".join(row[3] for row in ROWS))
    assert [each for each in named if each not in BROKER_CONFIGS] == []
    compared = 0
    for bound, _, default, setting, _ in ROWS:
        name = setting.strip("`")
        given = float(str(BROKER_CONFIGS[name].default)) if name in BROKER_CONFIGS else 0
        if given:  # 0 means that the code chooses
            shown = re.match(r"([\d,]+)( [MG]iB|/s|)", default)
            assert shown is not None, bound
            assert given == int(shown[1].replace(",", "")) * UNITS[shown[2]], bound
            compared += 1
    assert compared > 10
