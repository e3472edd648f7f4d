"""The log as other gateways show it, when one of those that are named never does."""

from __future__ import annotations

from random import Random

import pytest

from tidegate_coordination.log.metadata_log import LogMisconfigured, LogUnavailable, MetadataLog
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.forward import ForwardLog
from tidegate_coordination.logs.memory import MemoryLog


async def test_a_gateway_without_the_log_does_not_hide_one_that_is_back() -> None:
    good = FaultyLog(MemoryLog(), LogFaults(), Random(1))
    await good.append(1, b"entry")

    async def open_good() -> MetadataLog:
        return good

    async def open_other() -> MetadataLog:
        raise LogMisconfigured("this gateway does not reach the metadata log itself")

    log = ForwardLog([open_good, open_other], good.capabilities)
    assert await log.read(1, 100)
    good.faults = LogFaults(outage=1.0)
    with pytest.raises(LogUnavailable, match="does not reach the metadata log itself"):
        await log.read(1, 100)
    good.faults = LogFaults()
    assert await log.read(1, 100)
