"""`tidegate log verify URL`: tests whether a log keeps the public contract of metadata logs."""

from __future__ import annotations

import json
import sys
from typing import NamedTuple

import trio

from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import LogMisconfigured, LogUnavailable, MetadataLog
from tidegate_coordination.log_contract.contract import verify_log
from tidegate_runtime.log_lines import configure_logs

from ...refusals_to_start import sentence_of
from ..output.table import mark


class Promise(NamedTuple):
    """One promise of the contract, and whether the log keeps it."""

    name: str
    ok: bool
    text: str


class Opener:
    """Opens handles on one log.  A log in memory has no name, so all its handles are one object."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._shared: MetadataLog | None = None

    async def __call__(self) -> MetadataLog:
        """Return a further handle."""
        if not self._url.startswith("memory:"):
            return await open_log(self._url)
        if self._shared is None:
            self._shared = await open_log(self._url)
        return self._shared


def run_verify(url: str, *, as_json: bool) -> int:
    """Verify a log; return 0 if it keeps every promise, 1 otherwise."""
    configure_logs("error")
    promises: list[Promise] = []

    def report(name: str, ok: bool, text: str) -> None:
        promises.append(Promise(name, ok, text))
        if not as_json:
            print(f"{mark(ok)}  {name}: {text}", flush=True)

    try:
        all_kept = trio.run(verify_log, Opener(url), report)
    except (LogMisconfigured, LogUnavailable) as error:
        print(f"tidegate: {sentence_of(error)}", file=sys.stderr)
        return 1
    if as_json:
        print(json.dumps({"ok": all_kept, "promises": [each._asdict() for each in promises]}))
    else:
        kept = sum(each.ok for each in promises)
        print(f"{kept} of {len(promises)} promises kept.")
    return 0 if all_kept else 1
