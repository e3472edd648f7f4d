"""Calls to a store that does not answer are repeated a few times, with growing pauses."""

import pytest
import trio
import trio.testing

from tidegate_pipeline.tasks.retries import ATTEMPTS, with_retries
from tidegate_storage.stores.object_store import NoSuchObject, StoreUnavailable


class Call:
    """Fails a number of times; at: the times of the calls."""

    def __init__(self, failures: int, trouble: Exception) -> None:
        self.at: list[float] = []
        self._failures = failures
        self._trouble = trouble

    async def __call__(self) -> str:
        await trio.lowlevel.checkpoint()
        self.at.append(trio.current_time())
        if len(self.at) <= self._failures:
            raise self._trouble
        return "done"


async def test_a_call_is_repeated_until_it_succeeds(autojump_clock: trio.testing.MockClock) -> None:
    call = Call(2, StoreUnavailable("away"))
    began = trio.current_time()
    assert await with_retries(call) == "done"
    assert [round(at - began, 3) for at in call.at] == [0, 0.2, 0.6]


async def test_a_call_raises_its_last_failure(autojump_clock: trio.testing.MockClock) -> None:
    call = Call(ATTEMPTS, StoreUnavailable("away"))
    began = trio.current_time()
    with pytest.raises(StoreUnavailable, match="away"):
        await with_retries(call)
    assert [round(at - began, 3) for at in call.at] == [0, 0.2, 0.6, 1.4]


async def test_a_permanent_error_is_raised_at_once() -> None:
    call = Call(1, NoSuchObject("gone"))
    with pytest.raises(NoSuchObject):
        await with_retries(call)
    assert len(call.at) == 1
