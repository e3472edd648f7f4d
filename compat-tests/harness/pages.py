"""The code blocks of a page of the documentation, for tests that follow it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import dedent
from typing import Final

from harness.places import ROOT

_FENCE: Final = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block.  language: the word after the fence."""

    language: str
    text: str

    def settings(self) -> dict[str, str]:
        """Return the settings of a block of properties; a backslash continues a line."""
        lines = re.sub(r"\\\n\s*", "", self.text).splitlines()
        return dict(each.split("=", 1) for each in lines if each)


def blocks_of(page: str, heading: str) -> list[Block]:
    """Return the fenced blocks below a heading of a page, up to the next one.

    page: below docs/.  heading: with its `#`.

    Raises:
      LookupError: the page has no such heading.
    """
    text = (ROOT / "docs" / page).read_text()
    _, found, rest = text.partition(f"{heading}\n")
    if not found:
        raise LookupError(f"{page} has no {heading!r}")
    level = heading.split()[0]
    section = re.split(rf"^{level} ", rest, maxsplit=1, flags=re.MULTILINE)[0]
    return [Block(each[2], dedent(each[3])) for each in _FENCE.finditer(section)]
