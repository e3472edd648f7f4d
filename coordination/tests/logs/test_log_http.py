"""Promises of `http:`: the contract over a real server, and clear errors if it cannot keep it."""

import random
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
import trustme

from tests.worlds import http_log_opened
from tests.worlds.doors import NO_HOSTS
from tests.worlds.http_log_opened import Opened
from tests.worlds.http_log_server import log_server, tcp_server
from tests.worlds.http_world import memory_server
from tidegate_coordination.log.load import open_log
from tidegate_coordination.log.metadata_log import (
    AppendResult,
    LogCapabilities,
    LogCorrupt,
    LogEntry,
    LogMisconfigured,
    LogMisuse,
    LogUnavailable,
    MetadataLog,
    Trimmed,
)
from tidegate_coordination.log_contract.contract import verify_log
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.http import wire
from tidegate_coordination.logs.http.service import LogService
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.logs.sqlite.log import open_file
from tidegate_runtime.http.values import HttpAnswer, HttpRequest
from tidegate_runtime.secret import Secret

SMALL = LogCapabilities(
    forward_to_leader=True,
    typical_append_seconds=0.5,
    max_entry_bytes=100,
    inline_bytes_per_second=7,
)

opened = http_log_opened.opened


async def failed_checks(open_one: Callable[[], Awaitable[MetadataLog]]) -> list[str]:
    failed: list[str] = []

    def report(name: str, good: bool, text: str) -> None:
        failed.extend([] if good else [f"{name}: {text}"])

    await verify_log(open_one, report)
    return failed


async def test_http_keeps_the_contract_before_a_memory_log() -> None:
    async with log_server(MemoryLog()) as url:
        assert await failed_checks(lambda: open_log(url)) == []


async def test_http_keeps_the_contract_before_a_sqlite_log(tmp_path: Path) -> None:
    log = await open_file(tmp_path / "log.db")
    async with log_server(log) as url:
        assert await failed_checks(lambda: open_log(url)) == []
    await log.aclose()


async def write_all(log: MetadataLog, writer: int, count: int, placed: dict[int, bytes]) -> None:
    """Append; on LogUnavailable repeat the bytes. A conflict may come from an earlier attempt."""
    position = 1
    for number in range(count):
        payload = b"%d.%d" % (writer, number)
        while position in placed or not await is_placed(log, position, payload):
            position += 1
        placed[position] = payload


async def is_placed(log: MetadataLog, position: int, payload: bytes) -> bool:
    while True:
        try:
            if await log.append(position, payload) is AppendResult.APPENDED:
                return True
            page = await log.read(position, 1)
        except LogUnavailable:
            continue
        assert not isinstance(page, Trimmed)
        return page[0].payload == payload


async def test_http_before_a_faulty_log_places_each_entry_once(opened: Opened) -> None:
    memory = MemoryLog()
    faults = LogFaults(ambiguous_append=0.2, lost_append=0.1, late_append=0.2, read_error=0.1)
    faulty = FaultyLog(memory, faults, random.Random(4))
    placed: dict[int, bytes] = {}
    async with log_server(faulty) as url, trio.open_nursery() as nursery:
        for writer in range(3):
            nursery.start_soon(write_all, await opened(url), writer, 15, placed)
    await faulty.land_late()
    assert faulty.landed["ambiguous_append"] > 0
    assert await memory.read(1, 10_000) == [LogEntry(*each) for each in sorted(placed.items())]


async def test_faults_between_them_place_each_entry_once(opened: Opened) -> None:
    """A proxy loses, cuts, damages and mixes up answers after the log has handled the requests."""
    memory, rng = MemoryLog(), random.Random(5)
    service = LogService(memory, token=None)
    answers: list[HttpAnswer] = []

    async def garbled(request: HttpRequest) -> HttpAnswer:
        if request.body and rng.random() < 0.1:
            request = HttpRequest(request.method, request.target, request.headers, b"garbled")
        answer = await service.handle(request)
        answers.append(answer)
        match rng.randrange(10):
            case 0:
                return HttpAnswer(answer.status, b"cut", headers=answer.headers)
            case 1:
                return HttpAnswer(201, answer.body, headers=answer.headers)
            case 2:
                return rng.choice(answers)
            case 3:
                return HttpAnswer(502, b"<html>bad gateway</html>", "text/html")
            case _:
                return answer

    placed: dict[int, bytes] = {}
    async with tcp_server(garbled) as address, trio.open_nursery() as nursery:
        for writer in range(3):
            log = await opened_at_last(opened, f"http://{address}")
            nursery.start_soon(write_all, log, writer, 15, placed)
    assert await memory.read(1, 10_000) == [LogEntry(*each) for each in sorted(placed.items())]


async def opened_at_last(opened: Opened, url: str) -> MetadataLog:
    while True:
        try:
            return await opened(url)
        except LogUnavailable:
            continue


async def test_the_log_reports_its_capabilities(opened: Opened) -> None:
    async with log_server(MemoryLog(SMALL)) as url:
        log = await opened(url)
        assert log.capabilities == SMALL
        assert await log.append(1, b"x" * 100) is AppendResult.APPENDED
        with pytest.raises(LogMisuse, match="over the limit of 100"):
            await log.append(2, b"x" * 101)
        with pytest.raises(LogMisuse, match="start at 1"):
            await log.append(0, b"x")
        with pytest.raises(LogCorrupt, match="ends before 2"):
            await log.append(3, b"x")


async def test_a_name_that_is_not_ascii_is_answered_without_it() -> None:
    """The server cannot repeat the name in a header.

    The client need not even know the token.
    """
    service = LogService(MemoryLog(), token=Secret("s3cret"))
    async with memory_server(service.handle) as server:
        stream = await server.connect()
        await stream.send_all(
            b"GET /v1/log HTTP/1.1\r\nHost: x\r\nTidegate-Request: caf\xe9\r\n\r\n"
        )
        answer = bytes(await stream.receive_some())
    assert answer.startswith(b"HTTP/1.1 401 ")
    assert b"\r\nTidegate-Request: \r\n" in answer


async def test_a_log_that_may_only_be_read(opened: Opened) -> None:
    memory = MemoryLog()
    await memory.append(1, b"x")
    async with log_server(memory, read_only=True) as url:
        log = await opened(url)
        assert await log.read(1, 10) == [LogEntry(1, b"x")]
        for writes in (log.append(2, b"y"), log.trim(1), log.save_snapshot(1, [b""])):
            with pytest.raises(LogMisconfigured, match="may only be read"):
                await writes
    assert await memory.read(2, 10) == []


async def test_a_token_opens_and_is_never_shown(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    (tmp_path / "wrong").write_text("wr0ng\n")
    async with log_server(MemoryLog(), token=Secret("s3cret")) as url:
        for good in (f"{url}?token-file={tmp_path}/token", url.replace("//", "//:s3cret@")):
            log = await open_log(good)
            assert await log.read(1, 1) == []
            await log.aclose()
        for bad in (url, f"{url}?token-file={tmp_path}/wrong", url.replace("//", "//:wr0ng@")):
            with pytest.raises(LogMisconfigured, match="refuses the token") as refused:
                await open_log(bad)
            assert "wr0ng" not in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (HttpAnswer(200, b"<html>", "text/html"), LogMisconfigured, "is no metadata log"),
        (HttpAnswer(404, b"no"), LogMisconfigured, "check host, port and path"),
        (HttpAnswer(302, headers=(("Location", "/x"),)), LogMisconfigured, "is no metadata log"),
        (HttpAnswer(401, b"who?"), LogMisconfigured, "refuses the request"),
        (HttpAnswer(421, NO_HOSTS.refusal.encode()), LogMisconfigured, "use an IP address"),
        (HttpAnswer(503, b"no"), LogUnavailable, "something answers for the log"),
        (HttpAnswer(200, headers=((wire.VERSION_HEADER, "2"),)), LogMisconfigured, "version '2'"),
        (HttpAnswer(200, headers=((wire.VERSION_HEADER, "1"),)), LogUnavailable, "damaged"),
    ],
)
async def test_the_error_says_that_the_server_is_no_log(
    answer: HttpAnswer, error: type[Exception], words: str
) -> None:
    async def other(request: HttpRequest) -> HttpAnswer:
        await trio.lowlevel.checkpoint()
        return answer

    async with tcp_server(other) as address:
        with pytest.raises(error, match=words):
            await open_log(f"http://{address}/log")


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (404, LogUnavailable, "something answers for the log"),
        (502, LogUnavailable, "something answers for the log"),
        (413, LogMisconfigured, "client_max_body_size"),
    ],
)
async def test_a_proxy_that_answers_later(
    opened: Opened, status: int, error: type[Exception], words: str
) -> None:
    service = LogService(MemoryLog(), token=None)

    async def proxy(request: HttpRequest) -> HttpAnswer:
        if request.method == "PUT":
            return HttpAnswer(status, b"<html>", "text/html")
        return await service.handle(request)

    async with tcp_server(proxy) as address:
        log = await opened(f"http://{address}")
        with pytest.raises(error, match=words):
            await log.append(1, b"x")


async def test_a_log_that_is_not_there_or_goes_away_is_unavailable(opened: Opened) -> None:
    async with log_server(MemoryLog()) as url:
        log = await opened(url)
        await log.append(1, b"x")
    with pytest.raises(LogUnavailable):
        await log.append(2, b"x")
    with pytest.raises(LogUnavailable, match="cannot be reached"):
        await opened(url)
    await log.aclose()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http:", "write http://HOST:PORT/PREFIX"),
        ("http://", "write http://HOST:PORT/PREFIX"),
        ("http://host:port", "not understood"),
        ("http://host/#part", "write http://HOST:PORT/PREFIX"),
        ("http://host/a%20ä", "percent-encoded"),
        ("http://user:s3cret@host/", "has no user"),
        ("http://:s3cret%0a@host/", "a character that HTTP cannot carry"),
        ("http://:s3cret@host/?tokenfile=x", "has no parameter 'tokenfile'"),
        ("http://host/?token-file=/none/such", "/none/such cannot be read"),
        ("https://host/?ca-file=/none/such", "/none/such cannot be read"),
        ("https://host/?key-file=/none/such", "/none/such is no key with its certificate"),
    ],
)
async def test_a_bad_http_log_url_gets_a_clear_error(url: str, words: str) -> None:
    with pytest.raises(LogMisconfigured, match=words) as refused:
        await open_log(url)
    assert "s3cret" not in str(refused.value)


async def test_a_server_may_ask_for_the_clients_certificate(opened: Opened, tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    own = authority.issue_cert("ann@example.com").private_key_and_cert_chain_pem
    own.write_to_path(tmp_path / "own.pem")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(tls)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    async with tcp_server(LogService(MemoryLog(), token=None).handle, tls=tls) as address:
        url = f"https://{address}/?ca-file={tmp_path}/ca.pem"
        log = await opened(f"{url}&key-file={tmp_path}/own.pem")
        assert await log.append(1, b"x") is AppendResult.APPENDED
        with pytest.raises(LogUnavailable):
            await open_log(url)


async def test_over_tls_only_a_trusted_certificate_will_do(opened: Opened, tmp_path: Path) -> None:
    authority, stranger = trustme.CA(), trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    stranger.cert_pem.write_to_path(tmp_path / "stranger.pem")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    service = LogService(MemoryLog(), token=Secret("s3cret"))
    async with tcp_server(service.handle, tls=tls) as address:
        url = f"https://:s3cret@{address}/?ca-file={tmp_path}"
        log = await opened(f"{url}/ca.pem")
        assert await log.append(1, b"x") is AppendResult.APPENDED
        assert await log.read(1, 10) == [LogEntry(1, b"x")]
        with pytest.raises(LogMisconfigured, match=r"is not trusted .*ca-file=FILE"):
            await open_log(f"{url}/stranger.pem")
        with pytest.raises(LogUnavailable):
            await open_log(f"http://:s3cret@{address}/")
