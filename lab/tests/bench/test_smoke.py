"""The whole way: a gateway process, client processes, figures."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.worlds.app_world import PATIENCE_SECONDS, serving
from tidegate_bench.clients import topics, workers
from tidegate_bench.clients.spec import OneByOne, Produce, Read


def records_in(servers: str, topic: str, partitions: int) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "counts"})
    try:
        places = [TopicPartition(topic, number) for number in range(partitions)]
        ends = [consumer.get_watermark_offsets(each, timeout=PATIENCE_SECONDS) for each in places]
        return sum(end - start for start, end in ends)
    finally:
        consumer.close()


def test_ingest_gives_figures() -> None:
    command = [sys.executable, "-m", "tidegate_gateway", "bench", "ingest", "--quick", "--json"]
    done = subprocess.run(
        [*command, "--store", "memory", "--only", "1MB 16p 1c plain"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["header"]["store"] == "memory"
    (scenario,) = told["scenarios"]
    (row,) = scenario["rows"]
    assert (row["case"], row["broker"]) == ("1MB 16p 1c plain", "tidegate")
    figures = {name: each["median"] for name, each in row["figures"].items()}
    assert 0 < figures["cpu ms/MB"] < 1000
    assert figures["PUT/GiB"] > 0
    assert {"MB/s", "req/s", "RSS MB"} <= figures.keys()


def test_clients_report_their_counts(tmp_path: Path) -> None:
    with serving("dev", "--memory", "--port", "0", "--admin-port", "0", cwd=tmp_path) as process:
        servers = process.servers
        topics.create(servers, "t", 2, {})
        # More than can be acknowledged in no time: the client drops the rest, which does not count.
        (sent,) = workers.run([Produce(servers, "t", 2, 16_384, 10**9, 0.05, idempotent=True)])
        first = 1  # a record before the go, to be connected
        assert records_in(servers, "t", 2) - first == sent["payload_bytes"] // 1024 > 0

        read = Read(servers, "t", 2, 3, sent["payload_bytes"], PATIENCE_SECONDS, from_start=True)
        assert workers.run([read])[0]["payload_bytes"] >= 3 * sent["payload_bytes"]

        for read_back in (False, True):
            (told,) = workers.run([OneByOne(servers, "t", 5, PATIENCE_SECONDS, read_back)])
            assert len(told["latencies"]) == told["records"] == 5
            assert 0 < sum(told["latencies"]) <= told["seconds"]


def test_commits_of_concurrent_gateways_give_figures() -> None:
    command = [sys.executable, "-m", "tidegate_gateway", "bench", "commits", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    ((row,),) = (each["rows"] for each in json.loads(done.stdout)["scenarios"])
    figures = row["figures"]
    assert figures["commits"]["median"] == 36
    assert figures["failed"]["median"] == 0
    assert 0 < figures["p50 ms"]["median"] <= figures["p99 ms"]["median"]
