"""`tidegate doctor` reports all that `serve` would refuse, and nothing else."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.worlds.app_world import serving, tidegate
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.writers.gateways import Gateway
from tidegate_gateway.instance import hold_cache_folder, hold_data_folder, read_key
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.tools import doctor_log
from tidegate_gateway.tools.doctor import examine, examine_store
from tidegate_gateway.tools.findings import Checked
from tidegate_storage.objects.ownership import claim_prefix
from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer, StoreMisconfigured, StoreUnavailable

QUIET = ("--set", "lease.ms=3600000", "--set", "housekeeping.interval.ms=3600000")
IN_MEMORY = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "object.store": "memory:",
    "metadata.log": "memory:",
}


async def examined(data: Path | None = None, **settings: str) -> list[Checked]:
    found: list[Checked] = []
    texts = IN_MEMORY | {name.replace("_", "."): text for name, text in settings.items()}
    with trio.fail_after(60):
        await examine(BrokerSettings(texts), data, found.append)
    return found


def problems(found: list[Checked]) -> list[str]:
    return [each.area for each in found if not each.ok]


# -- a store that cannot be used ------------------------------------------------------------------


class Deaf(MemoryObjectStore):
    """A store that does not answer PUTs.  asked: the number of PUTs."""

    asked = 0

    async def put(self, key: str, body: Buffer) -> None:
        self.asked += 1
        raise StoreUnavailable("no route")


class Refusing(MemoryObjectStore):
    async def put(self, key: str, body: Buffer) -> None:
        raise StoreMisconfigured("give Tidegate credentials")


@pytest.mark.parametrize("store", [Deaf(), Refusing()])
async def test_a_store_that_cannot_be_used_is_one_problem(store: MemoryObjectStore) -> None:
    found: list[Checked] = []
    assert not await examine_store(store, found.append)
    assert [(each.what, each.ok) for each in found] == [("creates objects", False)]
    assert found[0].advice.endswith("; its other checks were left out")


async def test_a_store_that_does_not_answer_is_asked_once() -> None:
    store = Deaf()
    await examine_store(store, lambda checked: None)
    assert store.asked == 1


async def test_the_log_is_examined_where_no_store_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    url = f"s3://bucket/prefix?endpoint=http://127.0.0.1:{port}&region=r&skip_signature=true"
    found = await examined(object_store=url)
    assert problems(found) == ["object store"]
    assert next(each.what for each in found if each.area == "metadata log") == "opens"
    assert any("node.id" in each.what for each in found)
    assert any("clocks of" in each.what for each in found)


# -- a prefix that is not the log's ---------------------------------------------------------------


async def test_a_prefix_of_a_cluster_beside_an_empty_log(tmp_path: Path) -> None:
    assert problems(await examined(object_store=f"file:{tmp_path}")) == []
    store = open_store(f"file:{tmp_path}")
    await claim_prefix(store, "of-others", timeline=1, created_by="test")
    await store.aclose()
    found = await examined(object_store=f"file:{tmp_path}")
    assert problems(found) == ["object store"]
    assert "owns this prefix, but the metadata log is empty" in found[-1].advice


def test_a_prefix_beside_a_log_that_has_another(tmp_path: Path) -> None:
    log = ("--log", "sqlite:log.db")
    dev = ("dev", "--port", "0", "--admin-port", "0", *log, "--object-store", "file:objects")
    with serving(*dev, cwd=tmp_path) as process:
        process.stop()
    free = ("--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", "node.id=2", "--json", *log)
    done = tidegate("doctor", *free, "--object-store", "file:elsewhere", cwd=tmp_path)
    (bad,) = [each for each in checks(done.stdout) if not each["ok"]]
    assert bad["area"] == "object store"
    assert "Give the same bucket and prefix as the other gateways" in bad["advice"]


# -- a gateway that runs --------------------------------------------------------------------------


async def test_ports_of_this_folders_own_gateway_are_no_problem(tmp_path: Path) -> None:
    folder = hold_data_folder(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        here = {"listeners": f"PLAINTEXT://{address}", "admin_listener": address}
        here |= {"peer_listener": address}
        while_it_runs = await examined(tmp_path, **here)
        folder.close()
        afterwards = await examined(tmp_path, **here)
    assert problems(while_it_runs) == []
    said = [each for each in while_it_runs if "runs; ports in use" in each.what]
    assert [each.area for each in said] == ["data folder"]
    assert problems(afterwards) == ["listeners", "listeners", "listeners"]
    assert not [each for each in afterwards if "runs" in each.what]


async def test_looking_at_a_folder_makes_no_key(tmp_path: Path) -> None:
    await examined(tmp_path / "data")
    assert list((tmp_path / "data").iterdir()) == []
    assert read_key(tmp_path / "data") == ""


def test_a_node_id_that_another_gateway_has(tmp_path: Path) -> None:
    where = ("--log", "sqlite:log.db", "--object-store", "file:objects")
    free = ("--set", "listeners=PLAINTEXT://127.0.0.1:0", "--json")
    with serving("dev", "--port", "0", "--admin-port", "0", *where, *QUIET, cwd=tmp_path):
        for data, is_own in (("tidegate-data", True), ("other", False)):
            done = tidegate("doctor", *free, *where, "--data", data, cwd=tmp_path)
            about = [each for each in checks(done.stdout) if "node.id" in each["what"]]
            assert [each["ok"] for each in about] == [is_own]
            assert done.returncode == (0 if is_own else 1)
        assert "a gateway of zone 'default' has it and wrote" in about[0]["advice"]


def checks(text: str) -> list[dict[str, Any]]:
    return list(json.loads(text)["checks"])


@pytest.mark.parametrize(
    ("key", "silent_seconds", "ok", "words"),
    [
        ("mine", 0, True, "this one by its instance.key"),
        ("other", 5, False, "another node.id"),
        ("other", 31, True, "silent for 31 s"),
        ("other", -60, False, "wrote 0 s ago"),
    ],
)
def test_a_node_id_in_use_is_refused_unless_the_instance_key_is_the_same(
    key: str, silent_seconds: int, ok: bool, words: str
) -> None:
    state = ClusterState()
    heard_ms = int((time.time() - silent_seconds) * 1000)
    state.gateways.live[7] = Gateway(7, 2, key, "az-b", (), "1", False, 0, heard_ms)
    found = doctor_log.check_node_id(state, 2, "mine")
    assert found.ok == ok
    assert words in found.what + found.advice
    assert "'az-b' has it" in found.what + found.advice


# -- the disk cache -------------------------------------------------------------------------------


async def test_a_disk_cache_that_cannot_be_made(tmp_path: Path) -> None:
    good = await examined(disk_cache_dir=str(tmp_path / "cache"))
    assert [each.what for each in good if each.area == "disk cache"] == [
        f"{tmp_path / 'cache'} can be written"
    ]
    found = await examined(disk_cache_dir="/proc/nothing")
    assert problems(found) == ["disk cache"]
    assert any("choose another disk.cache.dir" in each.advice for each in found)
    assert "disk cache" not in [each.area for each in await examined()]


async def test_a_disk_cache_that_another_gateway_uses(tmp_path: Path) -> None:
    cache, data = hold_cache_folder(tmp_path / "cache"), tmp_path / "data"
    found = await examined(data, disk_cache_dir=str(tmp_path / "cache"))
    assert problems(found) == ["disk cache"]
    assert any("another gateway uses it" in each.advice for each in found)
    folder = hold_data_folder(data)
    assert problems(await examined(data, disk_cache_dir=str(tmp_path / "cache"))) == []
    folder.close()
    cache.close()
