"""The admin page /v1/debug, as builtins: facts for debugging a process.

The page has no secrets.  Secret settings show `[hidden]`, and tasks have no local variables.  The
lines are log lines, which have no secrets either.
"""

from __future__ import annotations

import gc
import os
import platform
import resource
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distributions
from typing import Any, Final

import trio

from tidegate_coordination.rules.configs import ResourceType
from tidegate_coordination.state.cluster import ClusterState
from tidegate_runtime.last_lines import LastLines
from tidegate_runtime.log_levels import LogLevels

from ..gateway import Gateway
from ..settings.broker_settings import BrokerSettings

MAX_TASKS: Final = 2_000
MAX_FRAMES: Final = 20


@cache
def packages() -> dict[str, str]:
    """Return the versions of all packages; the first call reads a file of each."""
    return {each.name: each.version for each in distributions()}


def debug_report(
    settings: BrokerSettings, gateway: Gateway | None, lines: LastLines, levels: LogLevels
) -> dict[str, object]:
    """Return the report.

    Args:
      gateway: None before it has started.
    """
    return {
        "settings": dict(settings.static),
        "dynamic_configs": _configs(gateway.coordinator.state) if gateway is not None else {},
        "log_levels": levels.own(),
        "process": _process(),
        "packages": packages(),
        "tasks": list(_tasks()),
        "log": lines.texts(),
    }


def _configs(state: ClusterState) -> dict[str, list[str]]:
    """Return names of dynamic broker configs, by node id or default; values may be secrets."""
    kind = ResourceType.BROKER.value
    names = state.configs.names(kind)
    return {each or "(default)": sorted(state.configs.get(kind, each)) for each in names}


def _process() -> dict[str, object]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "pid": os.getpid(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "user_seconds": used.ru_utime,
        "system_seconds": used.ru_stime,
        "peak_rss_kib": used.ru_maxrss,
        "open_files_limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "garbage_collections": [each["collections"] for each in gc.get_stats()],
    }


def _tasks() -> Iterator[dict[str, object]]:
    """Yield at most MAX_TASKS tasks, parents first, each with its depth in nurseries."""
    root = trio.lowlevel.current_root_task()
    waiting: list[tuple[int, trio.lowlevel.Task]] = [(0, root)] if root is not None else []
    count = 0
    while waiting and count < MAX_TASKS:
        depth, task = waiting.pop()
        count += 1
        yield {"depth": depth, "name": task.name, "at": _frames(task)}
        for nursery in task.child_nurseries:
            waiting += [(depth + 1, each) for each in nursery.child_tasks]


def _frames(task: trio.lowlevel.Task) -> list[str]:
    """Return the frames in which a task waits, the innermost last."""
    found: list[str] = []
    inner: Any = task.coro
    while inner is not None and len(found) < MAX_FRAMES:
        frame = getattr(inner, "cr_frame", None) or getattr(inner, "ag_frame", None)
        if frame is not None:
            found.append(f"{frame.f_code.co_qualname} {frame.f_lineno}")
        inner = getattr(inner, "cr_await", None) or getattr(inner, "ag_await", None)
    return found
