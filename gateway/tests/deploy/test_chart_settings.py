"""Gateways take the settings that the Helm chart writes, from files and environment as in pods."""

from __future__ import annotations

import re
import ssl
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("helm_python", reason="the extra `deploy` is not installed")

import trustme

from tests.worlds.app_world import PATIENCE_SECONDS, serving, tidegate
from tests.worlds.chart_world import SHAPES, Pod, example, pods
from tidegate_gateway.cli.processes.plan import check_processes
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.settings.settings_sources import gather

SECRET = re.compile(r"\$\{dir:([^:}]+):([^}]+)\}")
STORE = re.compile(r"(\.ssl\.(?:key|trust)store\.location)=(\S+)")
PEER_TOKEN = "a-long-random-text-of-all-gateways"
PLAIN_USERS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required user_admin="admin-secret";'
)


@dataclass(frozen=True)
class Mounted:
    """A pod's files and environment.  The folders of its containers are below a test folder."""

    folder: Path
    environ: dict[str, str]
    arguments: list[str]

    @property
    def properties(self) -> Path:
        return self.folder / "etc/tidegate/server.properties"

    def settings(self) -> BrokerSettings:
        return gather(
            defaults={},
            properties_file=self.properties,
            environ=self.environ,
            assignments=[],
        )


def mounted(pod: Pod, folder: Path, **secrets: str) -> Mounted:
    """Mount a pod's ConfigMap and Secrets.

    secrets: contents by key, with _ for each dot.  Other keys get some text.
    """
    given = {"peer.token": PEER_TOKEN, "plain.jaas": PLAIN_USERS}
    given |= {name.replace("_", "."): text for name, text in secrets.items()}
    for text in (pod.properties, *pod.environ.values()):
        for place, key in SECRET.findall(text):
            path = folder / place.lstrip("/") / key
            path.parent.mkdir(parents=True, exist_ok=True)
            # Secrets are often made from files, whose content ends with a line feed.
            path.write_text(given.get(key, f"{key}-which-is-a-long-random-text") + "\n")

    def here(text: str) -> str:
        return re.sub(r"/(?=(etc|var/lib|var/cache)/tidegate)", f"{folder}/", text)

    found = Mounted(
        folder,
        {name: here(text) for name, text in pod.environ.items()},
        [here(each) for each in pod.arguments],
    )
    found.properties.parent.mkdir(parents=True, exist_ok=True)
    found.properties.write_text(here(pod.properties))
    return found


def on_loopback(pod: Mounted, **replaced: str) -> None:
    """Set free ports of the loopback in the pod's settings.  replaced: other settings to set."""
    text = re.sub(r"0\.0\.0\.0:\d+", "127.0.0.1:0", pod.properties.read_text())
    for name, value in replaced.items():
        text = re.sub(
            rf"(?m)^{name.replace('_', '[.]')}=.*$", f"{name.replace('_', '.')}={value}", text
        )
    pod.properties.write_text(text)


@pytest.mark.parametrize("shape", SHAPES)
def test_each_pod_is_a_gateway_of_its_own(shape: str, tmp_path: Path) -> None:
    processes = example(shape).get("processes", 1)
    ids: list[int] = []
    keys: list[str] = []
    addresses: list[str] = []
    zones: set[str] = set()
    for pod in pods(shape):
        found = mounted(pod, tmp_path / pod.name).settings()
        check_processes(found, processes)
        assert (found.meaningless, found.removed) == ([], [])
        assert found.int("drain.timeout.ms") == 30_000
        ids += range(found.int("node.id"), found.int("node.id") + processes)
        keys.append(found.text("instance.key"))
        zones.add(found.text("broker.rack"))
        addresses += found.text("advertised.listeners").split(",")
        addresses.append(found.text("peer.advertised.listener"))
    given = example(shape).get("zones", [{"name": "playground"}])
    assert zones == {each["name"] for each in given}
    assert len(set(ids)) == len(ids) == len(pods(shape)) * processes
    assert len(set(addresses)) == len(addresses)
    if shape != "playground":
        assert len(set(keys)) == len(keys)
        assert all("\n" not in each and "instance.key-which" in each for each in keys)


def test_ids_of_gateways_begin_with_their_zone(tmp_path: Path) -> None:
    def ids(shape: str) -> list[int]:
        return [mounted(pod, tmp_path).settings().int("node.id") for pod in pods(shape)]

    assert ids("postgres-s3") == [100, 101, 200, 201, 300, 301]
    assert ids("large-machines") == [10_000, 20_000, 30_000]


def test_large_numbers_stay_whole(tmp_path: Path) -> None:
    (pod,) = pods("playground")
    assert mounted(pod, tmp_path).settings().int("buffered.bytes.max") == 128 << 20
    first = pods("postgres-s3")[0]
    assert mounted(first, tmp_path).settings().int("disk.cache.max.bytes") == 10 << 30


@pytest.mark.parametrize("shape", SHAPES)
def test_no_secret_is_in_a_config_map_or_an_argument(shape: str) -> None:
    for pod in pods(shape):
        for name in ("peer.token", "admin.token", "metadata.secret.key", "metadata.log"):
            for value in re.findall(rf"(?m)^{name}=(.*)$", pod.properties):
                assert value.startswith(("${dir:", "memory:", "dynamodb:", "s3:"))
        assert not any("token" in each or "://" in each for each in pod.arguments)


@pytest.mark.slow
def test_the_playground_serves(tmp_path: Path) -> None:
    (pod,) = pods("playground")
    here = mounted(pod, tmp_path)
    on_loopback(here)
    assert here.arguments[:2] == ["tidegate", "serve"]
    with serving(*here.arguments[1:], cwd=tmp_path, **here.environ) as process:
        assert process.get("/livez")[0] == 200
        assert process.get("/readyz")[0] == 200
        code, _ = process.stop()
    assert code == 0


@pytest.mark.slow
def test_gateways_with_tls_and_logins_serve(tmp_path: Path) -> None:
    pod = pods("tls-sasl")[0]
    here = mounted(
        pod, tmp_path, metadata_log=f"sqlite:{tmp_path}/metadata.db", admin_token="pages-secret"
    )
    on_loopback(here, object_store=f"file:{tmp_path}/objects")
    authority = trustme.CA()
    write_stores(here, authority)
    with serving(*here.arguments[1:], cwd=tmp_path, **here.environ) as process:
        url = str(process.said["admin_url"])
        assert url.startswith("https://")
        assert status(f"{url}/readyz", authority) == 200
        assert status(f"{url}/metrics", authority) == 401
        code, _ = process.stop()
    assert code == 0


def write_stores(pod: Mounted, authority: trustme.CA) -> None:
    own = authority.issue_cert("localhost", "127.0.0.1")
    for kind, place in STORE.findall(pod.properties.read_text()):
        path = Path(place)
        path.parent.mkdir(parents=True, exist_ok=True)
        is_own = "keystore" in kind
        path.write_bytes(
            own.private_key_and_cert_chain_pem.bytes() if is_own else authority.cert_pem.bytes()
        )


def status(url: str, authority: trustme.CA) -> int:
    context = ssl.create_default_context(cadata=authority.cert_pem.bytes().decode())
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS, context=context) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.slow
def test_doctor_finds_nothing_wrong(
    postgres_server: Any, seaweed_s3_url: str, tmp_path: Path
) -> None:
    pod = pods("postgres-s3")[0]
    here = mounted(pod, tmp_path, metadata_log=postgres_server.new_database())
    on_loopback(here, object_store=seaweed_s3_url.replace("?", "/chart?"))
    here.environ["TIDEGATE_ADVERTISED_LISTENERS"] = "INTERNAL://127.0.0.1:9092"
    done = tidegate(
        "doctor", *here.arguments[2:], cwd=tmp_path, seconds=PATIENCE_SECONDS, **here.environ
    )
    assert done.returncode == 0, done.stdout + done.stderr
