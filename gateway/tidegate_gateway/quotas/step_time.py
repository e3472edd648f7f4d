"""Measures how long a coroutine occupies the event loop, without its waits."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


class StepClock:
    """The time of the steps of one request so far.

    Args:
      now: seconds of a monotonic clock that runs during a step.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._seconds = 0.0
        self._began_at: float | None = None

    @property
    def seconds(self) -> float:
        """The time of all steps, including the present one."""
        running = 0.0 if self._began_at is None else self._now() - self._began_at
        return self._seconds + running

    def begin(self) -> None:
        """Note that a step begins."""
        self._began_at = self._now()

    def end(self) -> None:
        """Note that the step ends."""
        self._seconds, self._began_at = self.seconds, None


class Timed(Generic[Result]):
    """Awaits a coroutine, and reports its steps to a clock."""

    def __init__(self, coroutine: Coroutine[Any, Any, Result], clock: StepClock) -> None:
        self._coroutine = coroutine
        self._clock = clock

    def __await__(self) -> Generator[Any, Any, Result]:
        """Run the coroutine; return its result, or raise its exception."""
        sent: Any = None
        error: BaseException | None = None
        while True:
            self._clock.begin()
            try:
                step = self._coroutine
                trap = step.send(sent) if error is None else step.throw(error)
            except StopIteration as end:
                result: Result = end.value
                return result
            finally:
                self._clock.end()
            sent = error = None
            try:
                sent = yield trap
            except BaseException as thrown:
                error = thrown
