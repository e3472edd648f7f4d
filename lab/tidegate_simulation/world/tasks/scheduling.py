"""Trio's order of tasks, decided by a seed.

Trio shuffles each batch of ready tasks on purpose.  These two private names make the shuffle
repeatable; Hypothesis uses them too.  A test runs the same seed twice, so a release of Trio that
changes them does not go unnoticed.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from random import Random
from typing import Any


@contextmanager
def seeded_scheduling(seed: int) -> Generator[None]:
    """Make every trio.run() inside repeatable."""
    module: Any = import_module("trio._core._run")
    before_switch, before_random = module._ALLOW_DETERMINISTIC_SCHEDULING, module._r
    module._ALLOW_DETERMINISTIC_SCHEDULING = True
    module._r = Random(f"{seed}/scheduling")
    try:
        yield
    finally:
        module._ALLOW_DETERMINISTIC_SCHEDULING, module._r = before_switch, before_random
