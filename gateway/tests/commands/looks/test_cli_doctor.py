"""`tidegate doctor` and `tidegate log verify`: their findings and exit codes."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path

import pytest
import trio

from tests.worlds.app_world import serving, tidegate
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.tools.doctor import examine, examine_store
from tidegate_gateway.tools.findings import Checked
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer, ObjectInfo

FREE = ("--set", "listeners=PLAINTEXT://127.0.0.1:0")


def test_a_good_place(tmp_path: Path) -> None:
    done = tidegate("doctor", *FREE, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "PROBLEM" not in done.stdout
    assert "refuses to create an object twice" in done.stdout
    assert done.stdout.endswith("checks, no problem.\n")


def test_doctor_gives_advice_for_every_problem(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = tidegate(
            "doctor",
            "--json",
            *("--set", f"listeners=PLAINTEXT://127.0.0.1:{port}"),
            *("--object-store", "tape:"),
            *("--log", "paper:"),
            *("--data", "/proc/nothing"),
            cwd=tmp_path,
        )
    report = json.loads(done.stdout)
    problems = {each["area"]: each["advice"] for each in report["checks"] if not each["ok"]}

    assert done.returncode == 1
    assert report["ok"] is False
    assert f"port {port} is in use" in problems["listeners"]
    assert "choose another with --data" in problems["data folder"]
    assert "names no object store" in problems["object store"]
    assert "no metadata log is called 'paper'" in problems["metadata log"]


def test_a_live_cluster_is_only_looked_at(tmp_path: Path) -> None:
    where = ("--log", "sqlite:log.db", "--object-store", "file:objects")
    quiet = ("--set", "lease.ms=3600000", "--set", "housekeeping.interval.ms=3600000")
    dev = ("dev", "--port", "0", "--admin-port", "0", *where, *quiet)
    with serving(*dev, cwd=tmp_path) as process:
        before = json.loads(process.get("/v1/status")[1])["log_position"]
        own = ("--data", "tidegate-data")
        done = tidegate("doctor", *FREE, *where, *own, cwd=tmp_path)
        other = tidegate("doctor", *FREE, *where, "--set", "cluster.id=x", cwd=tmp_path)
        after = json.loads(process.get("/v1/status")[1])["log_position"]
        cluster_id = process.said["cluster_id"]

    assert done.returncode == 0, done.stdout
    assert f"cluster is {cluster_id}" in done.stdout
    said = " ".join(done.stdout.split())
    assert "a gateway of zone 'default' has it, and is this one by its instance.key" in said
    assert after == before
    assert other.returncode == 1
    assert "cluster.id is set to x" in other.stdout
    assert not [each for each in (tmp_path / "objects" / "doctor").rglob("*") if each.is_file()]


@pytest.mark.parametrize(
    ("peer", "token", "problems"),
    [
        ("0.0.0.0:0", "", ["peer listener"]),
        (":0", "", ["peer listener"]),
        ("0.0.0.0:0", "secret", []),
        ("127.0.0.1:0", "", []),
        ("[::1]:0", "", []),
        ("localhost:0", "", []),
        ("nonsense", "", ["peer listener"]),
    ],
)
async def test_a_peer_listener_that_answers_anyone(
    peer: str, token: str, problems: list[str]
) -> None:
    found: list[Checked] = []
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "metadata.log": "memory:"}
    settings |= {"object.store": "memory:", "peer.listener": peer, "peer.token": token}
    settings |= {"allow.plaintext.listeners": "true"}
    await examine(BrokerSettings(settings), None, found.append)
    assert [each.area for each in found if not each.ok] == problems
    advice = " ".join(each.advice for each in found if not each.ok)
    assert ("give all gateways the same peer.token" in advice) == (bool(problems) and ":0" in peer)


async def test_a_token_that_would_leave_the_machine_in_clear() -> None:
    found: list[Checked] = []
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "metadata.log": "memory:"}
    settings |= {"object.store": "memory:", "peer.listener": "0.0.0.0:0", "peer.token": "secret"}
    await examine(BrokerSettings(settings), None, found.append)
    [problem] = [each for each in found if not each.ok]
    assert "peer.token would leave this machine without TLS" in problem.advice
    assert "secret" not in str(found)


async def test_doctor_says_what_small_writes_cost() -> None:
    found: list[Checked] = []
    store = "s3://b/p?endpoint=http://127.0.0.1:1&region=r&skip_signature=true"
    settings = {"listeners": "PLAINTEXT://127.0.0.1:0", "metadata.log": "memory:"}
    settings |= {"object.store": store, "wal.inline.max.bytes": "0"}
    await examine(BrokerSettings(settings), None, found.append)
    [pace] = [each for each in found if "125 ms" in each.what]
    assert (pace.area, pace.ok) == ("object store", True)


def test_a_gateway_that_answers_anyone_says_so_at_its_start(tmp_path: Path) -> None:
    places = ("--log", "sqlite:log.db", "--object-store", "file:objects")
    dev = ("dev", "--port", "0", "--admin-port", "0", *places)
    peer = ("--set", "peer.listener=0.0.0.0:0", "--set", "peer.advertised.listener=localhost:0")
    with serving(*dev, *peer, cwd=tmp_path) as process:
        code, errors = process.stop()
    assert code == 0
    assert "any client that reaches peer.listener may read all records" in errors


def test_doctor_finds_the_folder_of_dev_unless_serve_has_one(tmp_path: Path) -> None:
    with serving("dev", "--port", "0", "--admin-port", "0", cwd=tmp_path) as process:
        done = tidegate("doctor", *FREE, cwd=tmp_path)
        cluster_id = process.said["cluster_id"]
    assert done.returncode == 0, done.stdout
    assert "checking tidegate-data of `dev`" in done.stdout
    assert f"cluster is {cluster_id}" in done.stdout
    assert not (tmp_path / "data").exists()
    (tmp_path / "data").mkdir()
    assert "tidegate-data" not in tidegate("doctor", *FREE, cwd=tmp_path).stdout


def test_doctor_names_a_listener_of_a_controller(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        both = f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}"
        controller = ("--set", "controller.listener.names=CONTROLLER")
        done = tidegate("doctor", "--set", both, *controller, cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert "CONTROLLER is not served" in done.stdout


def test_settings_that_cannot_be_read(tmp_path: Path) -> None:
    done = tidegate("doctor", "--set", "node.id=one", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("tidegate: Invalid value one")


class SlowClock(MemoryObjectStore):
    """A store whose clock is an hour late."""

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        found = await super().list(prefix, start_after=start_after, limit=limit)
        return [each._replace(modified_at=time.time() - 3600) for each in found]


class Overwriting(MemoryObjectStore):
    """A store that ignores create-if-absent."""

    async def put(self, key: str, body: Buffer) -> None:
        await self.delete_many([key])
        await super().put(key, body)


async def problems_of(store: MemoryObjectStore) -> dict[str, str]:
    found: list[Checked] = []
    await examine_store(store, found.append)
    return {each.what: each.advice for each in found if not each.ok}


async def test_a_wrong_clock_is_found() -> None:
    problems = await problems_of(SlowClock())
    assert list(problems) == ["its clock agrees with this machine's"]
    assert "they differ by 3599 s" in problems["its clock agrees with this machine's"]


async def test_a_store_that_would_lose_data_is_found() -> None:
    problems = await problems_of(Overwriting())
    assert "Tidegate would lose data here" in problems["refuses to create an object twice"]


async def test_in_memory_all_is_well() -> None:
    texts = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "object.store": "memory:",
        "metadata.log": "memory:",
    }
    found: list[Checked] = []
    with trio.fail_after(60):
        assert await examine(BrokerSettings(texts), None, found.append)
    assert all(each.ok for each in found)


def test_verify_keeps_its_promises(tmp_path: Path) -> None:
    done = tidegate("log", "verify", "memory:", cwd=tmp_path)
    assert done.returncode == 0, done.stdout
    assert done.stdout.endswith("promises kept.\n")
    assert "compare-and-set" in done.stdout


def test_verify_refuses_a_log_that_is_in_use(tmp_path: Path) -> None:
    with serving("dev", "--port", "0", "--admin-port", "0", cwd=tmp_path):
        done = tidegate("log", "verify", "sqlite:tidegate-data/metadata.db", "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert (done.returncode, report["ok"]) == (1, False)
    assert [each["name"] for each in report["promises"]] == ["starts empty"]


def test_verify_tells_a_bad_address(tmp_path: Path) -> None:
    done = tidegate("log", "verify", "paper:", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("tidegate: the metadata log cannot be used")
