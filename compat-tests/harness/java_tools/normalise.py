"""Removes the parts of a tool's output that differ between two runs."""

from __future__ import annotations

import re
from itertools import starmap, zip_longest

from harness.java_tools.permitted import COLUMNS
from harness.java_tools.script import Call
from harness.toolbox import Printed

RULES = [
    (re.compile(r"\b(localhost|127\.0\.0\.1)[:\s]+\d+\b"), "<address>"),
    (re.compile(r"(?<=CLUSTER-ID|Cluster ID): \S+"), ": <id>"),
    (re.compile(r'"logDir":"[^"]*"'), '"logDir":"<folder>"'),
    (re.compile(r"/127\.0\.0\.1\b"), "/<host>"),
    (re.compile(r"TopicId: [\w-]{22}"), "TopicId: <id>"),
    (re.compile(r"\bproducerId=\d+"), "producerId=<n>"),
    (re.compile(r"(?<=,__consumer_offsets-)\d+"), "<n>"),
    (re.compile(r"(?<=FinalizedVersionLevel: )(\S+)\s+Epoch: \d+"), r"\1 Epoch: <n>"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d([.:,]\d+)?"), "<time>"),
    (re.compile(r"\b1[6-9]\d{11}\b"), "<ms>"),
    (re.compile(r"[ \t]+"), " "),
]
# Stack traces show the inside of Kafka's client.  Only a broker that keeps its state in internal
# topics has them.
NOISE = re.compile(
    r"^\s+at |^\s*\.\.\. \d+ more|(?<!,)__consumer_offsets|__transaction_state"
    r"|__share_group_state|^\s*$"
)
OTHER_IN_EACH_RUN = ("ProducerId", "TransactionDurationMs")
ATTEMPTS = re.compile(
    r"(?<=TimeoutException: ).*|(?<=: )(Call\(|Timed out waiting for a node).*(?=\. Enable debug)"
)
FIGURE = re.compile(r"-?\d+(\.\d+)?(E-?\d+)?|NaN|Infinity")


def normal(call: Call, printed: Printed) -> dict[str, object]:
    """Return the parts of a call that are recorded and compared."""
    return {
        "status": printed.status,
        "stdout": _view(call, _lines(printed.stdout)),
        "stderr": _errors(call, _lines(printed.stderr)),
    }


def _lines(text: str) -> list[str]:
    return [_masked(line) for line in text.splitlines() if not NOISE.search(line)]


def _masked(line: str) -> str:
    for pattern, placeholder in RULES:
        line = pattern.sub(placeholder, line)
    return line.strip()


def _view(call: Call, lines: list[str]) -> list[str]:
    if call.keep:
        lines = [line for line in lines if re.search(call.keep, line)]
    match call.view:
        case "lines":
            return lines
        case "sorted":
            return sorted(lines)
        case "last":
            return [FIGURE.sub("<n>", line) for line in lines[-1:]]
        case "timeouts":
            return _without_attempts(lines)
        case "figures":
            return [FIGURE.sub("<n>", line) for line in lines]
        case "table":
            return _table(lines)
        case "apis":
            return apis(lines)


def _errors(call: Call, lines: list[str]) -> list[str]:
    return _without_attempts(lines) if call.view == "timeouts" else lines


def _without_attempts(lines: list[str]) -> list[str]:
    return [ATTEMPTS.sub("<calls>", line) for line in lines]


def _table(lines: list[str]) -> list[str]:
    """Return the rows sorted, without the figures in columns that differ between runs."""
    if not lines:
        return []
    names = lines[0].split()
    rows = (zip_longest(names, line.split(), fillvalue="") for line in lines[1:])
    return [lines[0], *sorted(" ".join(starmap(_cell, row)).strip() for row in rows)]


def _cell(name: str, text: str) -> str:
    is_hidden = name in OTHER_IN_EACH_RUN or name in COLUMNS
    return "<n>" if is_hidden and FIGURE.fullmatch(text) else text


def apis(lines: list[str]) -> list[str]:
    """`Name(key): min to max` of each API a broker offers, by key."""
    found = [re.match(r"(\w+)\((\d+)\): (\d+)(?: to (\d+))?\b", line) for line in lines]
    by_key = sorted((int(each[2]), each[1], each[3], each[4] or each[3]) for each in found if each)
    return [f"{name}({key}): {low} to {high}" for key, name, low, high in by_key]
