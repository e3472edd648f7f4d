"""`tidegate audit verify`: checks the chain of audit logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tidegate_runtime.settings_texts import BadSource

from ...security.audit_chain import Verdict, verify
from ..output.telling import was_told

WRONG, NOT_TOLD = 1, 2
SHOWN = 10


def run_audit_verify(files: Sequence[Path], *, as_json: bool) -> int:
    """Check the files as one log; return the exit code."""
    try:
        verdict = verify(_lines(files))
    except BadSource as error:
        was_told(error)
        return NOT_TOLD
    print(msgspec.json.encode(verdict._asdict()).decode() if as_json else _text(verdict))
    return WRONG if verdict.broken else 0


def _lines(files: Sequence[Path]) -> Iterator[bytes]:
    for path in files:
        try:
            with path.open("rb") as file:
                yield from (line.rstrip(b"\n") for line in file)
        except OSError as error:
            raise BadSource(f"{path} cannot be read: {error.strerror}") from error


def _text(verdict: Verdict) -> str:
    if not verdict.first and not verdict.broken:
        return "No lines."
    lines = [f"line {each.line}: {each.reason}" for each in verdict.broken[:SHOWN]]
    if len(verdict.broken) > SHOWN:
        lines.append(f"... {len(verdict.broken)} in all")
    whole = "The log is not whole." if verdict.broken else "The log is whole."
    before = " Lines before it are not in these files." if verdict.first > 1 else ""
    lines.append(f"{whole} Lines {verdict.first} to {verdict.last}.{before}")
    lines.append(f"last hash: {verdict.last_hash}")
    return "\n".join(lines)
