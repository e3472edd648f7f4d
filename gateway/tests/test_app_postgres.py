"""Gateways that share a metadata log in PostgreSQL, as their users see them."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from tests.app_world import PATIENCE_SECONDS, serving, tidegate

DEV = ("dev", "--port", "0", "--admin-port", "0")


def produce(servers: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for value in values:
        producer.produce("greetings", value)
    assert producer.flush(PATIENCE_SECONDS) == 0


def consume(servers: str, count: int) -> list[str]:
    settings = {"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    try:
        consumer.subscribe(["greetings"])
        messages = consumer.consume(count, PATIENCE_SECONDS)
        assert [each.error() for each in messages] == [None] * count
        return [(each.value() or b"").decode() for each in messages]
    finally:
        consumer.close()


def test_two_gateways_share_a_log_that_is_restarted(postgres_server: Any, tmp_path: Path) -> None:
    url = postgres_server.new_database()
    shared = (*DEV, "--log", url, "--object-store", "file:objects")
    one = (*shared, "--data", "one", "--set", "node.id=1")
    two = (*shared, "--data", "two", "--set", "node.id=2")
    with serving(*one, cwd=tmp_path) as first, serving(*two, cwd=tmp_path) as second:
        assert first.said["metadata_log"] == url.replace("postgres:postgres-of-tests@", "")
        assert first.said["cluster_id"] == second.said["cluster_id"]
        produce(first.servers, "a")
        assert consume(second.servers, 1) == ["a"]
        postgres_server.stop(signal.SIGQUIT)
        postgres_server.start()
        produce(second.servers, "b")
        assert consume(first.servers, 1) == ["b"]
        for each in (first, second):
            code, errors = each.stop()
            assert code == 0
            assert "postgres-of-tests" not in errors
    done = tidegate("doctor", "--log", url, "--json", cwd=tmp_path)
    told = [each for each in json.loads(done.stdout)["checks"] if each["area"] == "metadata log"]
    assert told
    assert all(each["ok"] for each in told), told


def test_verify_keeps_its_promises_on_postgresql(postgres_server: Any, tmp_path: Path) -> None:
    done = tidegate("log", "verify", postgres_server.new_database(), cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert done.stdout.endswith("promises kept.\n")


def test_a_wrong_password_is_one_sentence(postgres_server: Any, tmp_path: Path) -> None:
    url = postgres_server.new_database().replace("postgres-of-tests", "hidden")
    done = tidegate(*DEV, "--log", url, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("tidegate: the metadata log cannot be used: ")
    assert "check user and password" in done.stderr
    assert "hidden" not in done.stderr
    assert done.stderr.count("\n") == 1
