"""A fixture that opens logs by URL, and closes them after the test."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, aclosing

import pytest

from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import MetadataLog

Opened = Callable[[str], Awaitable[MetadataLog]]


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    """Opens a log, and closes it after the test."""
    async with AsyncExitStack() as stack:

        async def open_and_keep(url: str) -> MetadataLog:
            return await stack.enter_async_context(aclosing(await open_log(url)))

        yield open_and_keep
