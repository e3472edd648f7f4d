"""`tidegate pipeline status`: reads the log and writes nothing."""

from __future__ import annotations

import dataclasses
import json
import time
from pathlib import Path

import trio

from .backlog import PipelineStatus, ReportSeen, pipeline_status
from .options import log_url
from .parts import load_state_in_use, open_log_in_use
from .report import check_level, run_command, size_text, time_text


def run_status(data: Path, log: str | None, *, as_json: bool) -> int:
    """Print the status; return the exit code."""

    def work() -> int:
        check_level("error")
        status = trio.run(_look, log_url(data, log))
        print(json.dumps(dataclasses.asdict(status)) if as_json else _text(status))
        return 0

    return run_command(work)


async def _look(url: str) -> PipelineStatus:
    log = await open_log_in_use(url)
    try:
        state = await load_state_in_use(log, url)
    finally:
        await log.aclose()
    return pipeline_status(state, int(time.time() * 1000))


def _text(status: PipelineStatus) -> str:
    age = "" if status.oldest_ms is None else f", the oldest {time_text(status.oldest_ms)} old"
    lines = [
        f"cluster    {status.cluster_id}",
        f"to merge   {status.runs} runs, {size_text(status.run_bytes)}{age}",
        f"segments   {status.segments}, {size_text(status.segment_bytes)}",
    ]
    for each in status.drivers:
        role = "at work" if each.holds_claim else "waiting"
        lines.append(f"pipeline   {role}, last entry {time_text(each.silent_ms)} ago")
    lines += [_report(each) for each in status.reports]
    if not status.drivers:
        lines.append("pipeline   none is running: `tidegate pipeline run` starts one")
    return "\n".join(lines)


def _report(each: ReportSeen) -> str:
    done = f"{each.merges} merged, {each.compactions} compacted, {size_text(each.size_bytes)}"
    parts = [f"{time_text(each.age_ms)} ago: {done}, {each.records} records"]
    if each.removed:
        parts.append(f"{each.removed} records compacted away")
    parts += [f"{times} dropped ({reason})" for reason, times in each.dropped.items()]
    if each.failed:
        parts.append(f"{each.failed} failed ({each.last_error})")
    return f"report     {'; '.join(parts)}"
