"""Reads Prometheus' text format, as gateways write it.  Pure.

Only the wanted families are read: a page of a large cluster has thousands of others.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, NamedTuple, TypeAlias

_LINE: Final = re.compile(r"([a-z_0-9]+)(?:\{(.*)\})? (\S+)")
_LABEL: Final = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')
_ESCAPED: Final = re.compile(r"\\(.)")


class Sample(NamedTuple):
    """A value with its labels."""

    labels: dict[str, str]
    value: float


Samples: TypeAlias = dict[str, list[Sample]]
"""By the names of their families."""


def read_samples(text: str, wanted: Collection[str]) -> Samples:
    """Return the samples of the wanted families; other lines are skipped."""
    found: Samples = {}
    for line in text.split("\n"):  # splitlines() would also split at characters that names may hold
        name = line[: _end_of_name(line)]
        if name not in wanted:
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        try:
            value = float(match[3])
        except ValueError:
            continue
        labels = {each[1]: _plain(each[2]) for each in _LABEL.finditer(match[2] or "")}
        found.setdefault(name, []).append(Sample(labels, value))
    return found


def of_label(samples: Samples, label: str, value: str) -> Samples:
    """Return the samples with this value of a label; the label itself is removed."""
    found: Samples = {}
    for name, all_samples in samples.items():
        for labels, number in all_samples:
            if labels.get(label) == value:
                rest = {key: text for key, text in labels.items() if key != label}
                found.setdefault(name, []).append(Sample(rest, number))
    return found


def _end_of_name(line: str) -> int:
    ends = [at for at in (line.find("{"), line.find(" ")) if at >= 0]
    return min(ends, default=0)


def _plain(text: str) -> str:
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], text)
