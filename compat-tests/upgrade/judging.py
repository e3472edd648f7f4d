"""Judges the output of an upgrade's commands, and the errors of its clients.  No I/O here."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from histories.watch import Judged as HistoryJudged

FEATURE: Final = "tidegate.metadata.version"
SERVING: Final = "serving"
_SHOWN: Final = re.compile(
    rf"^Feature: {re.escape(FEATURE)}\s"
    r".*SupportedMaxVersion: (\d+)\s.*FinalizedVersionLevel: (\d+)",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Levels:
    """Levels of tidegate.metadata.version.  newest: the highest of the asked gateway."""

    on: int
    newest: int


def levels(described: str) -> Levels:
    """Return the levels that `kafka-features.sh describe` shows.

    Raises:
      ValueError: the text does not show the feature.
    """
    shown = _SHOWN.search(described)
    if shown is None:
        raise ValueError(f"{FEATURE} is not in: {described}")
    return Levels(on=int(shown[2]), newest=int(shown[1]))


def early_raise(asked: int, before: int, after: int, refusal: str) -> list[str]:
    """Return the problems of a raise of the level while a gateway of an older release is live.

    asked, before, after: levels.  refusal: "" if the raise was not refused.  If both releases have
    the same level, `asked` is the level that is on.  Such a request changes nothing, and need not
    be refused.
    """
    if after != before:
        return [f"{FEATURE} was raised from {before} to {after} while an older release lived"]
    if asked != before and not refusal:
        return [f"{FEATURE} {asked} was not refused while an older release lived"]
    return []


def odd_gateways(listed: str, releases: Mapping[int, str]) -> list[str]:
    """Return the rows of `tidegate gateway list` that the operator does not expect.

    releases: by node.id.
    """
    found: dict[int, tuple[str, str]] = {}
    for line in listed.splitlines()[1:]:
        number, _, _, release, state, *_ = re.split(r" {2,}", line)
        found[int(number)] = (release, state)
    expected = {number: (release, SERVING) for number, release in releases.items()}
    return [
        f"gateway {each} is {found.get(each, 'missing')}, not {expected.get(each, 'there')}"
        for each in sorted(found.keys() | expected.keys())
        if found.get(each) != expected.get(each)
    ]


def errors_seen(plain: Iterable[str], transactions: HistoryJudged) -> Counter[str]:
    """Return the errors that applications got, and transactions whose end is unknown.

    plain: errors of the clients of faults/.
    """
    found = Counter(plain)
    for name, ends in transactions.ends.items():
        for error, count in ends.errors.items():
            found[f"{name}: {error}"] += count
        if ends.unknown:
            found[f"{name}: the end of a transaction is unknown"] += ends.unknown
    return found
