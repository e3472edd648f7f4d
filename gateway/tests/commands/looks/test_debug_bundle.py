"""`tidegate debug bundle`, and the page that it reads: tasks, settings and the newest log lines."""

from __future__ import annotations

import json
import tarfile
import threading
from pathlib import Path

import msgspec
import pytest
import structlog
import trio

from tests.worlds.app_world import (
    PATIENCE_SECONDS,
    pages_of,
    serving,
    started_gateway,
    starting_pages,
    tidegate,
)
from tidegate_gateway.admin import debug_page
from tidegate_gateway.admin.admin_pages import AdminPages
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_runtime.last_lines import MAX_LINE_BYTES, LastLines
from tidegate_runtime.log_levels import LogLevels
from tidegate_runtime.log_lines import PROCESS_LINES, configure_logs


def test_the_newest_lines_are_kept_within_a_bound() -> None:
    lines = LastLines(max_bytes=100)
    for number in range(30):
        lines.add(f"line {number:04}".encode())
    assert lines.texts() == [f"line {number:04}" for number in range(19, 30)]
    lines.add(b"x" * (MAX_LINE_BYTES + 5))
    assert lines.texts() == []


def test_lines_that_are_written_are_kept_with_their_tracebacks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    configure_logs("info", as_json=False)
    try:
        log = structlog.get_logger("test")
        log.debug("not written")
        log.info("written", password="hunter2")
        try:
            raise ValueError("a bug")
        except ValueError:
            log.exception("failed")
    finally:
        structlog.reset_defaults()
    written, failed = (json.loads(each) for each in PROCESS_LINES.texts()[-2:])
    assert (written["event"], written["password"]) == ("written", "[hidden]")
    assert "ValueError: a bug" in failed["exception"]
    assert "a bug" in capsys.readouterr().err


async def test_the_page_shows_tasks_and_settings_without_secrets() -> None:
    async with started_gateway() as gateway:
        lines = LastLines()
        lines.add(b"a line")
        texts = {"peer.token": "secret", "node.id": "1"}
        settings, levels = BrokerSettings(texts), LogLevels("WARN")
        pages = AdminPages(gateway.identity, lambda: gateway, "0.0.1", settings, lines, levels)
        answer = await pages.answer("GET", "/v1/debug")
    found = msgspec.json.decode(answer.body)
    assert found["settings"] == {"peer.token": "[hidden]", "node.id": "1"}
    assert (found["log"], found["log_levels"]) == (["a line"], {"root": "WARN"})
    assert found["packages"]["tidegate"]
    at = [frame for task in found["tasks"] for frame in task["at"]]
    assert any(each.startswith("Coordinator.run ") for each in at)
    assert max(task["depth"] for task in found["tasks"]) >= 2


async def test_the_files_of_packages_are_read_once_and_not_in_the_event_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[threading.Thread] = []

    def distributions() -> tuple[()]:
        threads.append(threading.current_thread())
        return ()

    monkeypatch.setattr(debug_page, "distributions", distributions)
    debug_page.packages.cache_clear()
    try:
        for _ in range(2):
            await starting_pages().answer("GET", "/v1/debug")
    finally:
        debug_page.packages.cache_clear()
    assert len(threads) == 1
    assert threads[0] is not threading.current_thread()


async def test_a_gateway_that_starts_has_the_page() -> None:
    answer = await starting_pages().answer("GET", "/v1/debug")
    assert msgspec.json.decode(answer.body)["dynamic_configs"] == {}


async def test_many_tasks_are_cut() -> None:
    async with started_gateway() as gateway, trio.open_nursery() as nursery:
        for _ in range(2_100):
            nursery.start_soon(trio.sleep_forever)
        answer = await pages_of(gateway).answer("GET", "/v1/debug")
        assert len(msgspec.json.decode(answer.body)["tasks"]) == 2_000
        nursery.cancel_scope.cancel()


def test_a_bundle_has_the_pages_of_all_that_answer(tmp_path: Path) -> None:
    settings = ("listeners=PLAINTEXT://127.0.0.1:0", "admin.listener=127.0.0.1:0")
    options = [word for each in settings for word in ("--set", each)]
    with serving("serve", "--data", str(tmp_path / "data"), *options, cwd=tmp_path) as process:
        admin = str(process.said["admin_url"]).removeprefix("http://")
        given = ("debug", "bundle", "--admin", admin)
        done = tidegate(*given, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        again = tidegate(*given, cwd=tmp_path)
        assert (again.returncode, again.stderr) == (
            2,
            "tidegate: tidegate-debug.tar.gz exists: give another --out\n",
        )
        some = tidegate(*given, "--admin", "127.0.0.1:1", "--out", "b.tar.gz", cwd=tmp_path)
        assert some.returncode == 1
        assert "no gateway's admin listener answers at 127.0.0.1:1" in some.stderr
        process.popen.terminate()
        process.popen.communicate(timeout=PATIENCE_SECONDS)
    with tarfile.open(tmp_path / "tidegate-debug.tar.gz") as bundle:
        names = [Path(each).name for each in bundle.getnames()]
        debug = next(each for each in bundle.getnames() if each.endswith("debug.json"))
        file = bundle.extractfile(debug)
        assert file is not None
        lines = [json.loads(each)["event"] for each in json.load(file)["log"]]
    assert set(names) == {"ready.txt", "metrics.txt", "metrics-cluster.txt"} | set(
        f"{each}.json" for each in ("version", "status", "cost", "links", "zones", "debug")
    )
    assert "ready" in lines
