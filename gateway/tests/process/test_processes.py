"""Several gateways under one supervisor, with real processes: a dead one starts again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trio
from confluent_kafka import Producer

from tests.worlds.app_world import PATIENCE_SECONDS, Process, deadline, serving, tidegate
from tests.worlds.greetings import consume, produce
from tidegate_gateway.cli.child_process import ChildProcess
from tidegate_gateway.cli.processes.supervisor import Supervised, Supervisor
from tidegate_runtime.service_manager import ServiceManager

# Stands for a gateway: says that it serves, and ends with 0 at SIGTERM.
SERVES = """
import json, os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
print(json.dumps({"admin_url": None}), flush=True)
sys.stdin.read()
"""
HEARS = f"""
import signal, sys
signal.signal(signal.SIGHUP, lambda *_: open(sys.argv[1] + ".hup", "a").write("heard"))
{SERVES}
"""
BEGINS = """
import os, sys
open(sys.argv[1], "a").write(f"{os.getpid()}\\n")
sys.stdin.read()
"""
FAILS = "import sys; sys.exit(1)"
BABBLES = "print('a line that is no JSON', flush=True); import sys; sys.stdin.read()"


class Scene:
    """announced: set when all gateways serve.  told: the messages to the service manager.

    pids(): of all runs of a process, the newest last.  looks: how often the supervisor has looked
        for new certificates of its own.
    """

    def __init__(self, folder: Path, scripts: Sequence[str]) -> None:
        self.folder = folder
        self.announced = trio.Event()
        self.told: list[str] = []
        self.looks = 0
        self.gateways = [
            Supervised(number, [sys.executable, "-c", each, str(folder / str(number))], 60, 0)
            for number, each in enumerate(scripts, 1)
        ]

    async def run(self) -> int:
        with trio.fail_after(PATIENCE_SECONDS):
            manager = ServiceManager(self.told.append, None)
            supervisor = Supervisor(self.gateways, manager, self.look)
            return await supervisor.run(trio.sleep_forever, self.announced.set)

    async def look(self) -> None:
        self.looks += 1

    def pids(self, number: int) -> list[int]:
        return [int(each) for each in (self.folder / str(number)).read_text().split()]

    async def restarted(self, number: int, runs: int) -> None:
        while len(self.pids(number)) < runs:
            await trio.lowlevel.checkpoint()


async def test_what_dies_starts_again_and_all_stop_at_a_signal(tmp_path: Path) -> None:
    scene = Scene(tmp_path, [SERVES, SERVES])
    codes: list[int] = []

    async def act() -> None:
        await scene.announced.wait()
        for runs in (2, 3):
            os.kill(scene.pids(2)[-1], signal.SIGKILL)
            await scene.restarted(2, runs)
        os.kill(os.getpid(), signal.SIGTERM)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(act)
        codes.append(await scene.run())
    assert codes == [0]
    assert [len(scene.pids(each)) for each in (1, 2)] == [1, 3]
    assert [each.restarts.count for each in scene.gateways] == [0, 2]
    states = [each.partition("\n")[0] for each in scene.told]
    assert states == ["STATUS=starting", "READY=1", "STOPPING=1"]


async def test_gateways_that_an_operator_stopped_stay_down(tmp_path: Path) -> None:
    scene = Scene(tmp_path, [SERVES, SERVES])

    async def act() -> None:
        await scene.announced.wait()
        for number in (1, 2):
            os.kill(scene.pids(number)[0], signal.SIGTERM)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(act)
        assert await scene.run() == 0
    assert [len(scene.pids(each)) for each in (1, 2)] == [1, 1]


@pytest.mark.parametrize(
    "scripts", [[SERVES, FAILS], [FAILS, SERVES], [FAILS], [SERVES, BABBLES], [BABBLES]]
)
async def test_a_gateway_that_never_serves_ends_the_start(
    scripts: Sequence[str], tmp_path: Path
) -> None:
    scene = Scene(tmp_path, scripts)
    assert await scene.run() == 1
    assert not scene.announced.is_set()
    begun = [(tmp_path / "1").exists(), (tmp_path / "2").exists()]
    assert begun == [scripts[0] is SERVES, False]


async def test_sighup_reaches_the_gateways_that_serve(tmp_path: Path) -> None:
    scene = Scene(tmp_path, [HEARS, HEARS])
    heard = [tmp_path / f"{number}.hup" for number in (1, 2)]

    async def act() -> None:
        await scene.announced.wait()
        os.kill(os.getpid(), signal.SIGHUP)
        while not all(each.exists() for each in heard):
            await trio.lowlevel.checkpoint()
        os.kill(os.getpid(), signal.SIGTERM)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(act)
        assert await scene.run() == 0
    assert [each.restarts.count for each in scene.gateways] == [0, 0]
    assert scene.looks == 1


@pytest.mark.parametrize("hangs", [True, False])
async def test_a_look_that_hangs_or_fails_holds_no_signal_up(tmp_path: Path, hangs: bool) -> None:
    scene = Scene(tmp_path, [HEARS])
    begun = trio.Event()

    async def look() -> None:
        begun.set()
        if hangs:
            await trio.sleep_forever()
        raise ZeroDivisionError

    scene.look = look  # type: ignore[method-assign]

    async def act() -> None:
        await scene.announced.wait()
        os.kill(os.getpid(), signal.SIGHUP)
        await begun.wait()
        os.kill(os.getpid(), signal.SIGTERM)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(act)
        assert await scene.run() == 0


async def test_sighup_does_not_end_a_gateway_that_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[int] = []
    monkeypatch.setattr(trio.Process, "send_signal", lambda _, number: sent.append(number))
    scene = Scene(tmp_path, [BEGINS])
    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(scene.gateways[0].run)
            while not (tmp_path / "1").exists():
                await trio.lowlevel.checkpoint()
            scene.gateways[0].hang_up()
            nursery.cancel_scope.cancel()
    assert signal.SIGHUP not in sent


async def test_a_restart_that_the_system_refuses_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = Scene(tmp_path, [SERVES, SERVES])
    open_process, refusals = trio.lowlevel.open_process, [OSError("no memory"), OSError("again")]

    async def opened(*words: Any, **options: Any) -> trio.Process:
        if refusals:
            raise refusals.pop()
        return await open_process(*words, **options)

    async def act() -> None:
        await scene.announced.wait()
        monkeypatch.setattr(trio.lowlevel, "open_process", opened)
        os.kill(scene.pids(2)[-1], signal.SIGKILL)
        await scene.restarted(2, 2)
        os.kill(os.getpid(), signal.SIGTERM)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(act)
        assert await scene.run() == 0
    assert [len(scene.pids(each)) for each in (1, 2)] == [1, 2]
    assert scene.gateways[1].restarts.count == 3


async def test_a_process_that_ends_before_it_is_read_ends_no_supervisor() -> None:
    """The supervisor may see the end of the process before the end of its output."""
    opened = await trio.lowlevel.open_process(
        [sys.executable, "-c", FAILS], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    child = ChildProcess(opened)
    with trio.fail_after(PATIENCE_SECONDS):
        assert await child.wait() == 1
        assert await child.announcement() is None


async def _stopped(gateway: Supervised) -> None:
    await gateway.stop()


async def _called_off(gateway: Supervised) -> None:
    await trio.lowlevel.checkpoint()
    gateway.call_off()


@pytest.mark.parametrize("end", [_stopped, _called_off])
async def test_an_end_while_a_process_begins_holds_for_it(
    end: Callable[[Supervised], Awaitable[None]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = Scene(tmp_path, [SERVES]).gateways[0]
    open_process = trio.lowlevel.open_process

    async def opened(*words: Any, **options: Any) -> trio.Process:
        process = await open_process(*words, **options)
        await end(gateway)
        return process

    monkeypatch.setattr(trio.lowlevel, "open_process", opened)
    with trio.fail_after(PATIENCE_SECONDS):
        await gateway.run()
    assert gateway.is_down


def supervised(folder: Path, *settings: str) -> list[str]:
    texts = ("listeners=PLAINTEXT://127.0.0.1:0", "admin.listener=127.0.0.1:0", *settings)
    options = [word for each in texts for word in ("--set", each)]
    return ["serve", "--processes", "2", "--data", str(folder / "data"), *options]


def statuses(process: Process) -> dict[str, object]:
    found: dict[str, object] = json.loads(process.get("/v1/status")[1])["processes"]
    return found


def test_two_gateways_serve_real_clients_over_a_kill(tmp_path: Path) -> None:
    with serving(*supervised(tmp_path), cwd=tmp_path) as process:
        for pid in process.said["processes"]:
            assert b"TIDEGATE_ADMIN_TOKEN=" in Path(f"/proc/{pid}/environ").read_bytes()
        servers = process.servers.split(",")
        assert len(servers) == len(process.said["processes"]) == 2
        produce(servers[0], "a")
        assert process.get("/readyz") == (200, "process 1: ready\nprocess 2: ready\n")
        os.kill(process.said["processes"][1], signal.SIGKILL)
        failed: list[object] = []
        producer = Producer({"bootstrap.servers": process.servers, "log_level": 0})
        for number in range(100):
            producer.produce(
                "greetings", str(number), on_delivery=lambda error, _: failed.append(error)
            )
        assert producer.flush(PATIENCE_SECONDS) == 0
        assert failed == [None] * 100
        assert sorted(consume(servers[0], 101)) == sorted(["a", *map(str, range(100))])
        with deadline(process.popen):
            while not all(statuses(process).values()):
                pass
        _, metrics = process.get("/metrics")
        assert 'tidegate_process_restarts_total{process="2"} 1' in metrics
        assert 'tidegate_ready{process="2"} 1.0' in metrics
        code, errors = process.stop()
        assert code == 0
        assert errors.index('"process":2,"level":"info"') < errors.rindex('"process":1')


@pytest.fixture
def hangups_end_processes() -> Iterator[None]:
    """Let a SIGHUP end processes that the test starts, even if `nohup` runs the tests."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("hangups_end_processes")
def test_sighup_without_tls_ends_the_supervisor_and_no_gateway_before_it(tmp_path: Path) -> None:
    with serving(*supervised(tmp_path), cwd=tmp_path) as process:
        os.kill(process.said["processes"][1], signal.SIGHUP)
        assert process.get("/readyz") == (200, "process 1: ready\nprocess 2: ready\n")
        code, errors = process.stop(signal.SIGHUP)
    assert code == -signal.SIGHUP
    ended = [json.loads(each) for each in errors.splitlines() if '"event":"stopped"' in each]
    assert sorted((each["process"], each["exit_code"]) for each in ended) == [(1, 0), (2, 0)]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--processes", "many"), "--processes many: give a number up to 64, or auto"),
        (("--set", "node.id=one"), "Invalid value one for configuration node.id"),
        (("--set", "metadata.log=paper:"), "no metadata log is called 'paper'"),
        (
            ("--set", "admin.token=sesame", "--set", "admin.listener=0.0.0.0:0"),
            "admin.token would leave this machine without TLS: set admin.security.protocol=SSL",
        ),
    ],
)
def test_an_error_is_one_sentence(words: tuple[str, ...], sentence: str, tmp_path: Path) -> None:
    done = tidegate(*supervised(tmp_path), *words, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
