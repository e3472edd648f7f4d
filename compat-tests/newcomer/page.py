"""A page's commands, and whether they printed the output that it shows.  Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

# A person repeats these commands until they show the right thing, since they change nothing.
LOOKS: Final = ("tidegate gateway list ", "promtool query ")
_PART: Final = re.compile(
    r"^## (?P<heading>[^\n]*)$|^```sh\n(?P<typed>.*?)^```$(?:\n\n^```text\n(?P<shown>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
_HEREDOC: Final = re.compile(r"<<(\w+)$.*?^\1$", re.MULTILINE | re.DOTALL)
_HOLE: Final = re.compile(r"(\.\.\.|<\w+>)")


@dataclass(frozen=True, slots=True)
class Step:
    """One block of commands.  shown: their output as the page shows it; "" if it shows none."""

    heading: str
    typed: str
    shown: str

    @property
    def name(self) -> str:
        """Return its first line."""
        return self.typed.splitlines()[0]

    @property
    def only_looks(self) -> bool:
        """Return whether a person would repeat the commands until they show the right thing."""
        return all(each.startswith(LOOKS) for each in self.typed.splitlines())

    @property
    def commands(self) -> int:
        """Return the number of typed lines, without the lines of here-documents."""
        return len(_HEREDOC.sub("", self.typed).splitlines())


def steps_of(page: str) -> Iterator[Step]:
    """Yield the blocks of a page, in order."""
    heading = ""
    for found in _PART.finditer(page):
        if found["typed"] is None:
            heading = found["heading"]
        else:
            yield Step(heading, found["typed"], found["shown"] or "")


def is_shown(shown: str, printed: str) -> bool:
    """Return whether a command printed the output that the page shows.

    `...` stands for any text in a line.  A line `...` stands for any number of lines.  `<n>` stands
    for a word, the same one at each place.  Runs of spaces count as one space.
    """
    if shown == "":
        return True
    lines = [_words(each) for each in printed.splitlines()]
    return re.fullmatch(_pattern(shown), "".join(f"{each}\n" for each in lines)) is not None


def _pattern(shown: str) -> str:
    names: set[str] = set()
    lines = (_words(each) for each in shown.splitlines())
    return "".join(
        r"(?:.*\n)*" if each == "..." else _line_pattern(each, names) + r"\n" for each in lines
    )


def _line_pattern(line: str, names: set[str]) -> str:
    found: list[str] = []
    for part in _HOLE.split(line):
        name = part[1:-1]
        if part == "...":
            found.append(".*")
        elif not _HOLE.fullmatch(part):
            found.append(re.escape(part))
        elif name in names:
            found.append(f"(?P={name})")
        else:
            names.add(name)
            found.append(rf"(?P<{name}>\S+)")
    return "".join(found)


def _words(line: str) -> str:
    return " ".join(line.split())
