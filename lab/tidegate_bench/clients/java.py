"""Kafka's own performance tools as clients, run from the jars of compat-tests/harness."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from .. import checkout
from ..brokers.worlds import World
from ..errors import BenchError
from ..measure import samples
from ..measure.figures import Observation
from .spec import Told

TOOLS: Final = "org.apache.kafka.tools."
SECONDS: Final = 180.0
RECORD_BYTES: Final = 1024
MIB: Final = 1 << 20
_PRODUCED: Final = re.compile(
    r"^(\d+) records sent, ([\d.]+) records/sec .*?avg latency, .*?max latency, "
    r"(\d+) ms 50th, \d+ ms 95th, (\d+) ms 99th, (\d+) ms 99.9th",
    re.MULTILINE,
)
_AVERAGE: Final = re.compile(r"Avg latency: ([\d.]+) ms")
_PERCENTILES: Final = re.compile(r"50th = (\d+), 99th = (\d+), 99.9th = (\d+)")


@dataclass(frozen=True, slots=True)
class Tool:
    """One call of a tool; record_bytes of each record, for the payload."""

    name: str
    arguments: Sequence[str]


@dataclass(frozen=True, slots=True)
class Printed:
    """The printed figures of a tool, by name."""

    told: Told
    figures: dict[str, float]


def producer(
    broker: World, topic: str, records: int, settings: Sequence[str], *, throughput: int = -1
) -> Tool:
    """Return ProducerPerformance with 1 KiB records."""
    return Tool(
        "ProducerPerformance",
        (
            *("--bootstrap-server", broker.bootstrap, "--topic", topic),
            *("--num-records", str(records), "--record-size", str(RECORD_BYTES)),
            *("--throughput", str(throughput), "--command-property", *settings),
        ),
    )


def consumer(broker: World, topic: str, records: int, group: str) -> Tool:
    """Return ConsumerPerformance, which reads a topic from its start in a group of its own."""
    return Tool(
        "ConsumerPerformance",
        (
            *("--bootstrap-server", broker.bootstrap, "--topic", topic),
            *("--num-records", str(records), "--group", group),
            *("--timeout", "30000", "--hide-header"),
        ),
    )


def end_to_end(broker: World, topic: str, records: int) -> Tool:
    """Return EndToEndLatency with 100-byte records."""
    return Tool(
        "EndToEndLatency",
        (
            *("--bootstrap-server", broker.bootstrap, "--topic", topic),
            *("--num-records", str(records), "--producer-acks", "all", "--record-size", "100"),
        ),
    )


def measured(broker: World, tools: Sequence[Tool]) -> tuple[Observation, list[Printed]]:
    """Run tools in parallel to their ends; the time is the slowest tool's."""
    before = samples.look(broker.eyes, first=True)
    printed = run(tools)
    after = samples.look(broker.eyes, first=False)
    observation = samples.between(
        broker.eyes,
        before,
        after,
        payload_bytes=sum(each.told.get("payload_bytes", 0) for each in printed),
        seconds=max(each.told.get("seconds", 0.0) for each in printed),
    )
    return observation, printed


def run(tools: Sequence[Tool]) -> list[Printed]:
    """Run tools in parallel to their ends.

    Raises:
      BenchError: a tool failed, hung, or printed an unknown format.
    """
    command = _java()
    with ExitStack() as stack:
        running: list[subprocess.Popen[str]] = []
        for tool in tools:
            popen = subprocess.Popen(
                [*command, TOOLS + tool.name, *tool.arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            stack.callback(_end, popen)
            running.append(popen)
        return [_finish(popen, tool) for popen, tool in zip(running, tools, strict=True)]


def parse(name: str, text: str) -> Printed | None:
    """Return the figures in a tool's output; None if the output has another form.  Pure."""
    if name == "ProducerPerformance":
        return _of_producer(text)
    if name == "ConsumerPerformance":
        return _of_consumer(text)
    return _of_end_to_end(text)


def _of_producer(text: str) -> Printed | None:
    found = _PRODUCED.findall(text)
    if not found:
        return None
    count, rate, *percentiles = found[-1]
    told: Told = {
        "payload_bytes": int(count) * RECORD_BYTES,
        "seconds": int(count) / float(rate),
        "records": int(count),
    }
    return Printed(told, _named(percentiles))


def _of_consumer(text: str) -> Printed | None:
    """start, end, MB, MB/s, records, records/s, rebalance ms, fetch ms, fetch MB/s, records/s."""
    for line in text.splitlines():
        fields = [each.strip() for each in line.split(",")]
        if len(fields) == 10:
            megabytes, records, fetch_ms = float(fields[2]), int(fields[4]), float(fields[7])
            told: Told = {
                "payload_bytes": int(megabytes * MIB),
                "seconds": fetch_ms / 1e3,
                "records": records,
            }
            return Printed(told, {})
    return None


def _of_end_to_end(text: str) -> Printed | None:
    average, percentiles = _AVERAGE.search(text), _PERCENTILES.search(text)
    if average is None or percentiles is None:
        return None
    return Printed({}, _named(percentiles.groups()) | {"average ms": float(average[1])})


def _named(percentiles: Sequence[str]) -> dict[str, float]:
    names = ("p50 ms", "p99 ms", "p99.9 ms")
    return {name: float(text) for name, text in zip(names, percentiles, strict=True)}


def _finish(popen: subprocess.Popen[str], tool: Tool) -> Printed:
    try:
        output, _ = popen.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired as late:
        raise BenchError(f"{tool.name} did not end within {SECONDS:g} s") from late
    printed = parse(tool.name, output)
    if popen.returncode or printed is None:
        raise BenchError(f"{tool.name} failed ({popen.returncode}):\n{output[-2000:]}")
    return printed


def _end(popen: subprocess.Popen[str]) -> None:
    with popen:
        popen.kill()


def _java() -> list[str]:
    """Return java with the tools' class path and memory limits; log lines are off."""
    toolbox, install = checkout.harness("toolbox"), checkout.harness("install")
    try:
        words: Any = toolbox.java_command()
    except install.MissingTool as error:
        raise BenchError(f"--client java is impossible: {error}") from error
    restricted = {"-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"}  # they suit short calls only
    return [word for word in words if word not in restricted]
