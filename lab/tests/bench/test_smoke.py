"""The whole way: a gateway process, client processes, figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from tests.worlds.app_world import PATIENCE_SECONDS, serving
from tidegate_bench.brokers.stores import NamedStore
from tidegate_bench.brokers.worlds import gateway
from tidegate_bench.clients import topics, workers
from tidegate_bench.clients.spec import OneByOne, Produce, Read, Transact
from tidegate_bench.lab import measured, new_topic


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


def test_ingest_of_several_gateways_counts_all_of_them(tmp_path: Path) -> None:
    store = NamedStore(f"file:{tmp_path}/store")
    with gateway(store, None, {}, processes=1) as running, new_topic([running.world], 2) as topic:
        eyes = running.world.eyes
        assert len(eyes.more_pids) == 1
        assert os.sched_getaffinity(eyes.more_pids[0]) == {min(os.sched_getaffinity(0))}
        spec = Produce(running.world.bootstrap, topic, 2, 16_384, 10**6, PATIENCE_SECONDS)
        seen, _ = measured(running.world, [spec])
        assert seen.requests
        assert seen.puts
        assert seen.server_cpu is not None


def test_clients_report_their_counts(tmp_path: Path) -> None:
    with serving("dev", "--memory", "--port", "0", "--admin-port", "0", cwd=tmp_path) as process:
        servers = process.servers
        topics.create(servers, "t", 2, {})
        # More bytes than can be acknowledged in this time: the client drops what is left.
        (sent,) = workers.run([Produce(servers, "t", 2, 16_384, 10**9, 0.05, idempotent=True)])
        first = 1  # sent before the start signal, to connect
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


def bench(*arguments: str) -> dict[str, dict[str, float]]:
    """Run a quick bench; return the medians of each case."""
    command = [sys.executable, "-m", "tidegate_gateway", "bench", *arguments, "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    rows = [row for each in json.loads(done.stdout)["scenarios"] for row in each["rows"]]
    return {
        row["case"]: {name: each["median"] for name, each in row["figures"].items()} for row in rows
    }


def test_transactions_give_figures() -> None:
    figures = bench("transactions", "--store", "memory")["1 producer, v2"]
    assert 0 < figures["end p50 ms"] <= figures["end p99 ms"]
    assert 1.9 < figures["entries/transaction"] < 3  # the commit, the end, and a heartbeat
    assert figures["busy"] == 0


def test_the_state_of_transactions_gives_figures() -> None:
    figures = bench("transaction-state", "--only", "ends", "--only", "bytes")
    assert figures["fold of a commit, 10 partitions"]["us"] > 0
    assert figures["row of a marker"]["bytes"] == 34


def test_transactional_clients_report_their_counts(tmp_path: Path) -> None:
    with serving("dev", "--memory", "--port", "0", "--admin-port", "0", cwd=tmp_path) as process:
        servers = process.servers
        topics.create(servers, "t", 3, {})
        for version in (0, 1, 2):
            before = records_in(servers, "t", 3)
            (told,) = workers.run([Transact(servers, "t", 3, 2, version, 4, 2_048, 2, 0.3)])
            count = told["transactions"]
            assert count > 0
            assert told["payload_bytes"] == count * 4 * 2_048
            assert len(told["latencies"]) == (count if version else 0)
            # Each batch has two records, and each partition of a transaction a marker.
            markers = 3 if version else 0
            assert records_in(servers, "t", 3) - before == count * (4 * 2 + markers)
