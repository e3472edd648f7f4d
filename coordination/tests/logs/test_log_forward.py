"""The log as read through other gateways, if one of the named gateways never serves it."""

from __future__ import annotations

from random import Random

import pytest

from tidegate_coordination.log.metadata_log import LogMisconfigured, LogUnavailable, MetadataLog
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs import forward
from tidegate_coordination.logs.forward import ForwardLog
from tidegate_coordination.logs.http import opening
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


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("forward:a:1,b:2", ["http://a:1/?", "http://b:2/?"]),
        ("forward:a:1?token-file=t", ["http://a:1/?token-file=t"]),
        ("forward:a:1?tls=on&token-file=t", ["https://a:1/?token-file=t"]),
        ("forward:a:1,b:2?ca-file=c", ["https://a:1/?ca-file=c", "https://b:2/?ca-file=c"]),
        ("forward:a:1?key-file=k", ["https://a:1/?key-file=k"]),
    ],
)
async def test_gateways_are_asked_over_tls_where_the_url_says_so(
    url: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    async def open_http(each: str) -> MetadataLog:
        asked.append(each)
        raise LogUnavailable("away")

    monkeypatch.setattr(opening, "open_log", open_http)
    with pytest.raises(LogUnavailable):
        await forward.open_log(url)
    assert asked == expected


async def test_another_word_than_on_is_refused() -> None:
    with pytest.raises(LogMisconfigured, match="write tls=on"):
        await forward.open_log("forward:a:1?tls=off")
