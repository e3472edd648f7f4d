"""The commands of docs/operations/upgrade.md, which the drill runs.  No I/O here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

STOP: Final = "systemctl stop tidegate"
START: Final = "systemctl start tidegate"
INSTALL: Final = "/opt/tidegate/bin/pip install "
DESCRIBE: Final = "kafka-features.sh "
BEFORE: Final = "Before"
ONE_GATEWAY: Final = "One gateway"
RAISE: Final = "Raise the version"
INDENT: Final = "    "


def commands(page: str) -> dict[str, list[str]]:
    """Return the commands of each part of the page, by its title, in their order.

    A line of code is indented by four or more.  A backslash at its end joins it with the next line.
    """
    found: dict[str, list[str]] = {}
    title, goes_on = "", False
    for line in page.splitlines():
        if line.startswith("## "):
            title = line.removeprefix("## ")
        elif line.startswith(INDENT):
            words = line.strip()
            text = words.removesuffix("\\").rstrip()
            if goes_on:
                found[title][-1] += f" {text}"
            else:
                found.setdefault(title, []).append(text)
            goes_on = words.endswith("\\")
    return found


def filled(command: str, names: Mapping[str, str]) -> str:
    """Return the command with the page's example names replaced, all at once.

    A name is replaced only where no letter, digit, underscore, dot or hyphen is beside it.
    """
    longest_first = sorted(names, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest_first))
    return re.sub(rf"(?<![\w.-])(?:{pattern})(?![\w.-])", lambda each: names[each[0]], command)


def raised_to(command: str) -> int:
    """Return the level that the command of RAISE asks for."""
    return int(command.rpartition("=")[2])


def until_start(part: Sequence[str]) -> list[str]:
    """Return the commands of ONE_GATEWAY that come before its start."""
    return list(part[: part.index(START)])


def from_installation(part: Sequence[str]) -> list[str]:
    """Return the commands of ONE_GATEWAY that come after its stop."""
    return list(part[part.index(STOP) + 1 :])
