"""Many consumers in each zone over the same records, and the number of GETs for them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import trio
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from harness.places import ROOT

from tidegate_storage.stores.load import open_store
from tidegate_storage.stores.object_store import ObjectInfo
from zones.cluster import HERE, TIDEGATE, ZONES, Cluster
from zones.traffic import create

TOPIC = "fan"
RECORD_BYTES = 1_000
SECONDS = 600.0
READ_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class Shape:
    """The load that is written, and the number of its readers."""

    gigabytes: float
    partitions: int
    consumers: int


@dataclass(slots=True)
class FanOut:
    """Part (b) of a run.  say: prints its progress."""

    cluster: Cluster
    shape: Shape
    say: Callable[[str], None]
    problems: list[str]

    def run(self) -> dict[str, Any]:
        """Write, read as WAL objects, merge, read as segments; return the figures."""
        create(self.cluster, TOPIC, self.shape.partitions)
        before = self._objects("/wal/")
        self._write()
        ends = self._ends()
        wal = {key: size for key, size in self._objects("/wal/").items() if key not in before}
        figures = {"wal": self._read("WAL objects", wal, ends)}
        for each in self.cluster.gateways:  # _read() starts them again after the merge
            each.stop()
        self._merge()
        segments = self._segments()
        figures["segments"] = self._read("segments", segments, ends)
        return figures

    def _write(self) -> None:
        """Write records that do not compress, by a producer in each zone."""
        left = int(self.shape.gigabytes * 1e9) // RECORD_BYTES
        errors: list[str] = []

        def told(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                errors.append(error.name())

        producers = [
            Producer(
                {
                    "bootstrap.servers": self.cluster.gateways[0].address(),
                    "client.id": f"writer,zone={zone}",
                    "batch.size": 1_000_000,
                    "linger.ms": 50,
                    "message.timeout.ms": int(SECONDS * 1000),
                }
            )
            for zone in ZONES
        ]
        values = [os.urandom(RECORD_BYTES) for _ in range(100)]
        for number in range(left):
            producer = producers[number % 3]
            while True:
                try:
                    producer.produce(
                        TOPIC,
                        values[number % 100],
                        partition=number // 1_000 % self.shape.partitions,
                        on_delivery=told,
                    )
                    break
                except BufferError:
                    producer.poll(0.05)
            if number % 100_000 == 0:
                self.say(f"{number * RECORD_BYTES / 1e6:.0f} MB written")
        for producer in producers:
            if producer.flush(SECONDS):
                errors.append("NOT_SENT")
        if errors:
            self.problems.append(f"{len(errors)} records were not written: {errors[:3]}")

    def _ends(self) -> dict[int, int]:
        consumer = Consumer(
            {"bootstrap.servers": self.cluster.gateways[0].address(), "group.id": "ends"}
        )
        try:
            return {
                number: consumer.get_watermark_offsets(TopicPartition(TOPIC, number), timeout=60)[1]
                for number in range(self.shape.partitions)
            }
        finally:
            consumer.close()

    def _objects(self, folder: str) -> dict[str, int]:
        return {
            each.key: each.size_bytes
            for each in trio.run(_listed, self.cluster.store)
            if folder in each.key
        }

    def _segments(self) -> dict[str, int]:
        """Return the segments of the test's topic, which is the topic with the most segments."""
        found = self._objects("/segments/")
        topics = [_topic_of(key) for key in found]
        ours = max(set(topics), key=topics.count)
        return {key: size for key, size in found.items() if _topic_of(key) == ours}

    def _merge(self) -> None:
        self.say("merging")
        command = [*TIDEGATE, "pipeline", "once", "--runner", "local", "--json"]
        command += ["--object-store", self.cluster.store, "--log", self.cluster.log]
        done = subprocess.run(command, capture_output=True, cwd=ROOT, timeout=READ_SECONDS)
        if done.returncode:
            self.problems.append(f"not merged: {done.stderr.decode()[-1000:]}")

    def _read(self, what: str, objects: dict[str, int], ends: dict[int, int]) -> dict[str, Any]:
        """Let all consumers read all records, from gateways with empty caches."""
        self.cluster.restart_cold()
        self.say(f"{len(objects)} {what} of {sum(objects.values()) / 1e6:.0f} MB: reading")
        readers = {zone: self._start_readers(zone, ends) for zone in ZONES}
        told = {zone: self._finish(zone, popen) for zone, popen in readers.items()}
        got = {zone: self._got(zone, objects) for zone in ZONES}
        # A PUT that the gateway abandoned leaves an object that no one reads.
        dead = [key for key in objects if not any(each[key][0] for each in got.values())]
        objects = {key: size for key, size in objects.items() if key not in dead}
        rows = {zone: _row(got[zone], objects, told[zone]) for zone in ZONES}
        for zone, row in rows.items():
            self.say(f"{what}, {zone}: {json.dumps(row)}")
        return {
            "objects": len(objects),
            "objects_never_read": len(dead),
            "object_bytes": sum(objects.values()),
            "largest_object_bytes": max(objects.values()),
            "served_bytes": sum(each["bytes"] for each in told.values()),
            "seconds": round(max(each["seconds"] for each in told.values()), 1),
            "gateway_peak_mib": [each.rss_bytes() >> 20 for each in self.cluster.gateways],
            "zones": rows,
        }

    def _start_readers(self, zone: str, ends: dict[int, int]) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(HERE / "light_reader.py"), "--zone", zone]
        command += ["--bootstrap", self.cluster.of(zone)[0].address(), "--topic", TOPIC]
        command += ["--consumers", str(self.shape.consumers), "--ends", json.dumps(ends)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)

    def _finish(self, zone: str, popen: subprocess.Popen[bytes]) -> dict[str, Any]:
        printed, _ = popen.communicate(timeout=READ_SECONDS)
        told: dict[str, Any] = json.loads(printed)
        if told["failures"]:
            self.problems.append(f"consumers of {zone}: {told['failures'][:3]}")
        self.say(f"{zone}: {told['bytes'] / 1e9:.1f} GB read in {told['seconds']:.0f} s")
        return told

    def _got(self, zone: str, objects: dict[str, int]) -> dict[str, tuple[int, int]]:
        """Return by object the number of GETs, and the bytes of their answers."""
        got = dict.fromkeys(objects, (0, 0))
        for gateway in self.cluster.of(zone):
            for path, (count, size_bytes) in gateway.counting.counts().items():
                key = next((each for each in objects if path.endswith(each)), None)
                if key is not None:
                    got[key] = (got[key][0] + count, got[key][1] + size_bytes)
        return got


def _row(
    got: dict[str, tuple[int, int]], objects: dict[str, int], told: dict[str, Any]
) -> dict[str, Any]:
    stored = sum(objects.values())
    gets = [got[key][0] for key in objects]
    return {
        "gets_per_object_mean": round(sum(gets) / len(gets), 3),
        "gets_per_object_max": max(gets),
        "objects_above_one": sum(1 for count in gets if count > 1),
        "got_per_stored": round(sum(got[key][1] for key in objects) / stored, 3),
        "served_per_stored": round(told["bytes"] / stored, 2),
    }


def _topic_of(key: str) -> str:
    return key.partition("/segments/")[2].partition("/")[0]


async def _listed(url: str) -> list[ObjectInfo]:
    store = open_store(url)
    found: list[ObjectInfo] = []
    try:
        while page := await store.list("", start_after=found[-1].key if found else ""):
            found += page
        return found
    finally:
        await store.aclose()
