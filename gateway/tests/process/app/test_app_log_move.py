"""The metadata log of two gateways is moved while clients write and read, as their users see it."""

from __future__ import annotations

import itertools
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message, Producer

from tests.worlds.app_world import PATIENCE_SECONDS, Process, serving, tidegate
from tests.worlds.pg_server import PASSWORD

SHARED = (
    *("serve", "--set", "object.store=file:objects", "--set", "lease.ms=6000"),
    *("--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", "admin.listener=127.0.0.1:0"),
    *("--set", "drain.timeout.ms=3000", "--set", "drain.grace.ms=0"),
    *("--set", "snapshot.interval.entries=50", "--set", "housekeeping.interval.ms=1000"),
)
PAUSE_SECONDS = 0.005


def gateway(node_id: int, log: str, *more: str) -> tuple[str, ...]:
    own = ("--set", f"node.id={node_id}", "--data", f"data-{node_id}")
    return (*SHARED, *own, "--set", f"metadata.log={log}", *more)


@dataclass
class Load:
    """An idempotent producer and a member of a group, until stop() is called."""

    servers: str
    acknowledged: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    consumed: list[int] = field(default_factory=list)
    sent: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.servers, "enable.idempotence": True})
        while not self._over.is_set():
            producer.produce("t", str(self.sent), on_delivery=self._delivered)
            self.sent += 1
            producer.poll(PAUSE_SECONDS)
        assert producer.flush(PATIENCE_SECONDS) == 0

    def _delivered(self, error: object, _: Message) -> None:
        self.acknowledged.append(time.monotonic())
        if error is not None:
            self.failed.append(str(error))

    def consume(self) -> None:
        settings = {"bootstrap.servers": self.servers, "group.id": "g"}
        consumer = Consumer(settings | {"auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        give_up_at = None
        while give_up_at is None or time.monotonic() < give_up_at:
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.consumed.append(int(message.value() or b""))
            if self._over.is_set():
                give_up_at = give_up_at or time.monotonic() + PATIENCE_SECONDS
                if len(self.consumed) >= self.sent == len(self.acknowledged):
                    break
        consumer.close()

    def stop(self) -> None:
        self._over.set()

    @property
    def longest_stall_seconds(self) -> float:
        times = self.acknowledged
        return max(after - before for before, after in itertools.pairwise(times))


@contextmanager
def loaded(servers: str) -> Iterator[Load]:
    load = Load(servers)
    threads = [threading.Thread(target=each) for each in (load.produce, load.consume)]
    for each in threads:
        each.start()
    try:
        yield load
    finally:
        load.stop()
        for each in threads:
            each.join()


def moved(source: str, target: str, cwd: Path) -> dict[str, Any]:
    done = tidegate("log", "move", source, target, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def wait_for(load: Load, more: int) -> None:
    wanted = len(load.acknowledged) + more
    give_up_at = time.monotonic() + PATIENCE_SECONDS
    while len(load.acknowledged) < wanted:
        assert time.monotonic() < give_up_at
        time.sleep(0.05)


def test_from_sqlite_to_postgresql_to_a_bucket(
    postgres_server: Any, seaweed_s3_url: str, tmp_path: Path
) -> None:
    sqlite, postgres = "sqlite:metadata.db", postgres_server.new_database()
    bucket = seaweed_s3_url.replace("?", f"/{secrets.token_hex(4)}?")
    with (
        serving(*gateway(1, sqlite), cwd=tmp_path, PGPASSWORD=PASSWORD) as first,
        serving(*gateway(2, sqlite), cwd=tmp_path, PGPASSWORD=PASSWORD) as second,
    ):
        with loaded(f"{first.servers},{second.servers}") as load:
            wait_for(load, 500)
            reports = [moved(sqlite, postgres, tmp_path)]
            wait_for(load, 500)
            again = moved(sqlite, postgres, tmp_path)
            reports.append(moved(postgres, bucket, tmp_path))
            wait_for(load, 500)
        assert again["sealed_at"] == reports[0]["sealed_at"]
        assert load.failed == []
        assert load.consumed == list(range(load.sent))
        print(f"{load.sent} records, longest stall {load.longest_stall_seconds:.2f} s", reports)
        start_with_the_old_address(first, sqlite, tmp_path)
        code, errors = second.stop()
        assert code == 0, errors
        assert PASSWORD not in errors
    assert PASSWORD.encode() not in (tmp_path / "metadata.db").read_bytes()


def start_with_the_old_address(process: Process, url: str, cwd: Path) -> None:
    """Check that a gateway with an old URL follows two moves, and logs that its setting is old."""
    code, errors = process.stop()
    assert code == 0, errors
    assert "the metadata log has moved" in errors
    with serving(*gateway(1, url), cwd=cwd, PGPASSWORD=PASSWORD) as again:
        producer = Producer({"bootstrap.servers": again.servers})
        producer.produce("t", "0")
        assert producer.flush(PATIENCE_SECONDS) == 0
        code, errors = again.stop()
        assert (code, errors.count("the metadata log has moved")) == (0, 2)


def test_a_gateway_that_reads_through_others_follows(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("shared-secret\n")
    peer = ("--set", "peer.listener=127.0.0.1:0", "--set", "peer.token=shared-secret")
    on = ("--set", "forwarding=on")
    old, new = "sqlite:old.db", "sqlite:new.db"
    with (
        serving(*gateway(1, old, *peer, *on), cwd=tmp_path) as first,
        serving(*gateway(2, old, *peer, *on), cwd=tmp_path) as second,
    ):
        peers = f"{first.said['peer']},{second.said['peer']}"
        forward = f"forward:{peers}?token-file=token"
        with serving(*gateway(3, forward, *peer), cwd=tmp_path) as third:
            with loaded(third.servers) as load:
                wait_for(load, 200)
                assert moved(old, new, tmp_path)["gateways"] == 3
                wait_for(load, 200)
            assert (load.failed, load.consumed) == ([], list(range(load.sent)))
            for each in (third, second, first):
                code, errors = each.stop()
                assert code == 0, errors


def refused(*arguments: str, cwd: Path) -> str:
    done = tidegate(*arguments, cwd=cwd)
    assert (done.returncode, done.stdout) == (1, ""), done
    assert done.stderr.startswith("tidegate: ")
    return done.stderr


def test_a_log_that_cannot_be_moved_stays(tmp_path: Path) -> None:
    old, new = "sqlite:old.db", "sqlite:new.db"
    elsewhere = ("--set", "metadata.log.next=sqlite:no/such/folder/new.db")
    with serving(*gateway(1, old, *elsewhere), cwd=tmp_path) as first:
        told = refused("log", "move", old, new, cwd=tmp_path)
        assert "gateway 1: " in told
        assert "unable to open database file" in told
        # The new log is only a copy so far, so no gateway may start on it.
        told = refused(*gateway(2, new), cwd=tmp_path)
        assert "`tidegate log move` is copying to it" in told
        told = refused("log", "move", old, old, cwd=tmp_path)
        assert "a new, empty log is needed to move to" in told
        done = tidegate("log", "move", old, "--cancel", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, "no move was under way\n")
        told = refused("log", "move", old, "forward:127.0.0.1:1", cwd=tmp_path)
        assert first.stop()[0] == 0
    with serving(*gateway(1, old), cwd=tmp_path) as again:
        assert moved(old, new, tmp_path)["gateways"] == 1
        done = tidegate("gateway", "list", "--log", old, "--json", cwd=tmp_path)
        assert [each["node_id"] for each in json.loads(done.stdout)] == [1]
        code, errors = again.stop()
        assert (code, errors.count("the metadata log has moved")) == (0, 1)


def doctor(*options: str, cwd: Path) -> str:
    listen = ("--set", "listeners=PLAINTEXT://127.0.0.1:0")
    return tidegate("doctor", *listen, *options, cwd=cwd).stdout


def test_where_it_went_is_a_url_that_works(postgres_server: Any, tmp_path: Path) -> None:
    """The shown URL lacks only the password: user, TLS and all other parts are unchanged."""
    old = "sqlite:old.db"
    new = f"{postgres_server.new_database()}?sslmode=disable&application_name=gw&schema=moved"
    shown = new.replace(f":{PASSWORD}@", "@")
    whole = ("--set", f"metadata.log.next={new}")
    with serving(*gateway(1, old), cwd=tmp_path) as first:
        told = refused("log", "move", old, new, cwd=tmp_path)
        assert "check user and password" in told
        assert "give gateways the whole URL beforehand, as metadata.log.next" in told
        assert PASSWORD not in told
        assert first.stop()[0] == 0
    with serving(*gateway(1, old, *whole), cwd=tmp_path) as first:
        done = tidegate("log", "move", old, new, cwd=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        [setting] = [each for each in done.stdout.split() if each.startswith("metadata.log=")]
        assert setting == f"metadata.log={shown}"
        assert PASSWORD not in done.stdout
        again = tidegate("log", "move", old, new, cwd=tmp_path)
        assert f"this log has moved to {shown} at position" in again.stdout
        assert first.stop()[0] == 0
    said = " ".join(doctor("--log", old, cwd=tmp_path).split())  # joined to one line
    assert f"it was moved to another one: use that, {shown}" in said
    told = refused(*gateway(1, old), cwd=tmp_path)
    assert f"it has moved to {shown}, which cannot be opened: " in told
    with serving(*gateway(1, old), cwd=tmp_path, PGPASSWORD=PASSWORD) as late:
        code, errors = late.stop()
        assert (code, shown in errors, PASSWORD in errors) == (0, True, False)
    with serving(*gateway(1, shown), cwd=tmp_path, PGPASSWORD=PASSWORD) as last:
        assert last.stop()[0] == 0
