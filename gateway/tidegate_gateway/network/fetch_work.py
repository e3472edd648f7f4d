"""The cost of a client's last fetch, for the line about a slow one (slow_requests.py)."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class FetchWork:
    """The cost of a fetch.

    waited_seconds: for records.  gets: requests to the object store that this fetch sent, not those
    that it shared with an earlier fetch.  size_bytes: of its records.
    """

    waited_seconds: float = 0.0
    gets: int = 0
    size_bytes: int = 0


_loading: ContextVar[FetchWork | None] = ContextVar("loading", default=None)


@contextmanager
def loading_for(work: FetchWork) -> Generator[None]:
    """Count the GETs of this task, and of those that it starts, for a fetch."""
    token = _loading.set(work)
    try:
        yield
    finally:
        _loading.reset(token)


def count_get() -> None:
    """Count a GET of this task."""
    work = _loading.get()
    if work is not None:
        work.gets += 1
