"""`tidegate top` against pages as gateways serve them, with and without a terminal."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
import trio
from typer.testing import CliRunner

from tests.worlds.app_world import pages_of, starting_pages
from tests.worlds.forked_process import start_tidegate
from tests.worlds.wire_client import records_batch, wire_world
from tidegate_gateway.admin.admin_pages import AdminPages
from tidegate_gateway.cli.admin_reader import Access
from tidegate_gateway.cli.command import app
from tidegate_gateway.cli.processes.pages import Asked, ProcessPages
from tidegate_gateway.cli.top.frames import FrameReader
from tidegate_runtime.http.client import HttpClient
from tidegate_runtime.http.values import HttpAnswer
from tidegate_runtime.secret import Secret

PATIENCE_SECONDS = 60
PAGES = ("/v1/status", "/metrics", "/metrics/cluster", "/v1/cost")


def bytes_of(body: str | bytes) -> bytes:
    return body.encode() if isinstance(body, str) else body


async def texts_of(pages: AdminPages) -> dict[str, bytes]:
    return {each: bytes_of((await pages.answer("GET", each)).body) for each in PAGES}


@contextmanager
def serving(texts: Mapping[str, bytes]) -> Iterator[str]:
    """Run a listener with these pages; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path in texts else 404)
            body = texts.get(self.path, b"")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


async def pages_of_a_gateway() -> dict[str, bytes]:
    """Return the pages of a gateway that has served a topic."""
    async with wire_world() as world:
        await world.create_topic("orders", 3)
        await world.connect().produce("orders", 0, records_batch(b"a"))
        return await texts_of(pages_of(world.gateway))


@pytest.fixture
def admin() -> Iterator[str]:
    with serving(trio.run(pages_of_a_gateway)) as found:
        yield found


def test_pages_of_gateways_make_a_frame(admin: str) -> None:
    arguments = ["top", "--json", "--interval", "0.1", "--admin", admin]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    assert (report["asked"], report["answered"], report["problems"]) == (1, 1, [])
    assert report["clusters"] == ["cluster-of-tests"]
    [gateway] = report["gateways"]
    assert (gateway["node_id"], gateway["zone"], gateway["state"]) == (1, "az1", "serving")
    assert gateway["in_bytes_per_second"] == gateway["requests_per_second"] == 0
    assert gateway["produce_p99_ms"] >= 0
    assert 0 <= gateway["loop_busy"] <= 1
    topics = {each["name"]: each["partitions"] for each in report["topics"]}
    assert topics["orders"] == 3
    assert report["store"]["kept_bytes"] > 0
    # Without a terminal it ends after one frame, as with --once.
    done = CliRunner().invoke(app, [each for each in arguments if each != "--json"])
    assert done.exit_code == 0
    assert "1 of 1 gateways answered" in done.stdout
    assert "\x1b" not in done.stdout


def test_a_gateway_that_starts_is_shown() -> None:
    with serving(trio.run(texts_of, starting_pages())) as admin:
        done = CliRunner().invoke(app, ["top", "--json", "--interval", "0.1", "--admin", admin])
    assert done.exit_code == 0
    [gateway] = json.loads(done.stdout)["gateways"]
    assert gateway["state"] == "starting"


def test_a_silent_gateway_holds_no_frame_up(admin: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        places = [("127.0.0.1", silent.getsockname()[1]), ("127.0.0.1", int(admin[10:]))]
        reader = FrameReader(places, Access(), frame_seconds=0.3)
        for _ in range(2):
            first, second = reader.read().gateways
            assert first.admin in first.problem
            assert second.problem in ("", f"{admin} does not answer in time")


def test_without_any_answer_one_sentence_says_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        address = f"127.0.0.1:{closed.getsockname()[1]}"
    done = CliRunner().invoke(app, ["top", "--once", "--admin", address])
    assert done.exit_code == 2
    assert done.stdout == ""
    assert f"no gateway's admin listener answers at {address}" in done.stderr


async def pages_of_a_supervisor() -> dict[str, bytes]:
    """Return the pages of a supervisor.  Its second process serves, its first has just died."""
    own = await pages_of_a_gateway()
    answers = {path: HttpAnswer(200, body) for path, body in own.items()}

    class Client(HttpClient):
        def __init__(self) -> None:
            pass

        async def call(self, method: str, target: str, **_: object) -> HttpAnswer:
            return answers[target]

    asked = [Asked(1, None, 3), Asked(2, Client(), 0)]
    pages = ProcessPages(lambda: asked, Secret(""), "1")
    return {each: bytes_of((await pages.answer("GET", each)).body) for each in PAGES}


def test_the_pages_of_a_supervisor_are_those_of_its_gateways() -> None:
    with serving(trio.run(pages_of_a_supervisor)) as admin:
        done = CliRunner().invoke(app, ["top", "--json", "--interval", "0.1", "--admin", admin])
    assert done.exit_code == 0
    report = json.loads(done.stdout)
    assert (report["asked"], report["answered"]) == (2, 1)
    one, two = report["problems"], report["gateways"]
    assert one == [{"admin": f"{admin} process 1", "why": f"process 1 of {admin} does not answer"}]
    assert [each["admin"] for each in two] == [f"{admin} process 2", f"{admin} process 1"]
    assert (two[0]["node_id"], two[0]["state"], two[1]["state"]) == (1, "serving", "no answer")
    assert two[0]["requests_per_second"] == 0
    assert {each["name"]: each["partitions"] for each in report["topics"]}["orders"] == 3
    assert report["store"]["kept_bytes"] > 0


def test_a_supervisor_that_falls_silent_leaves_its_gateways_without_answer() -> None:
    texts = trio.run(pages_of_a_supervisor)
    with serving(texts) as admin:
        reader = FrameReader([("127.0.0.1", int(admin[10:]))], Access())
        assert [each.status.get("node_id") for each in reader.read().gateways] == [None, 1]
        texts.clear()
        silent = reader.read().gateways
    assert [(each.status.get("node_id"), bool(each.problem)) for each in silent] == [
        (None, True),
        (1, True),
    ]


@pytest.mark.parametrize("status", [b'{"processes": 1}', b'{"ready": true}', b"[]"])
def test_a_page_that_is_not_of_a_gateway_is_a_sentence(status: bytes) -> None:
    texts = {"/v1/status": status, "/metrics": b"", "/v1/cost": b"{}"}
    with serving(texts) as admin:
        done = CliRunner().invoke(app, ["top", "--once", "--interval", "0.1", "--admin", admin])
    assert done.exit_code == 2
    assert done.stderr == (
        f"tidegate: {admin} shows no page of a gateway, or of several under a supervisor\n"
    )


EXECUTED = {"PYTHONUNBUFFERED": "1"}


def read_until(descriptor: int, text: bytes) -> bytes:
    found = b""
    while text not in found:
        found += os.read(descriptor, 1 << 16)
    return found


@pytest.mark.parametrize("way", ["q", "Ctrl+C", "SIGTERM"])
def test_the_terminal_is_as_before_in_the_end(way: str, admin: str) -> None:
    ours, theirs = pty.openpty()
    try:
        before = termios.tcgetattr(theirs)
        process = start_tidegate(
            ("top", "--admin", admin, "--interval", "60"),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            # The process is executed instead of forked, since the test checks how the interpreter
            # ends, too.
            env={**os.environ, "TERM": "xterm", "COLUMNS": "80", "LINES": "24", **EXECUTED},
        )
        try:
            read_until(ours, b"$/month")
            assert termios.tcgetattr(theirs)[3] != before[3]  # the terminal passes each key at once
            if way == "q":
                os.write(ours, b"xyq")
            else:
                # The pseudo terminal does not control the process, so the test sends the signal of
                # Ctrl+C.
                process.send_signal(signal.SIGINT if way == "Ctrl+C" else signal.SIGTERM)
            read_until(ours, b"\x1b[?1049l")  # the command leaves the alternate screen
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()
            process.wait()
        assert termios.tcgetattr(theirs) == before
    finally:
        os.close(ours)
        os.close(theirs)
