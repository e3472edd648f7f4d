"""Clusters with a fault until alerts fire in a real Prometheus, then healed until they clear."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from threading import Event, Thread
from typing import Final

from faults.relay import Mode
from faults.world import Relay
from harness import prometheus
from harness.broker import LocalBroker, fresh_folder, start
from harness.process import free_ports, spawn

from monitoring.firing import (
    admin_of,
    becomes,
    clears,
    fires,
    full,
    is_up,
    short_rules,
    small_disk,
)
from monitoring.two import two_gateways
from tests.worlds.greetings import consume, produce
from tests.worlds.pg_server import running_postgres

QUICK: Final = {
    "object.delete.grace.ms": "1000",
    "housekeeping.interval.ms": "1000",
    "log.backup.interval.ms": "1000",
}
PIPELINE: Final = ("--runner", "local", "--rest-ms", "0", "--patience-ms", "0")
DISK_MEBIBYTES: Final = 24
PAUSE_SECONDS: Final = 0.1


def lost_gateway_and_lagging_group() -> None:
    """Kill a gateway (kill -9); then let a group lag."""
    with _gateway({}) as broker, _prometheus(broker) as server:
        broker.kill()
        fires(server, "TidegateGatewayDown")
        broker.start()
        becomes(lambda: is_up(server))
        clears(server, "TidegateGatewayDown")
        produce(broker.bootstrap, *map(str, range(100)))
        consume(broker.bootstrap, 1)
        fires(server, "TidegateGroupLag")
        consume(broker.bootstrap, 99)
        clears(server, "TidegateGroupLag")


def cut_off() -> None:
    """Hold all bytes between one of two gateways and its log."""
    with ExitStack() as stack:
        postgres = stack.enter_context(running_postgres())
        [port] = free_ports(1)
        relay = Relay({"log": (port, postgres.port)})
        stack.callback(relay.close)
        log = postgres.new_database()
        held = log.replace(f":{postgres.port}/", f":{port}/")
        gateways = stack.enter_context(two_gateways([held, log]))
        targets = [f"127.0.0.1:{each.admin_port}" for each in gateways]
        server = stack.enter_context(prometheus.running(*targets, rules=short_rules()))
        becomes(lambda: is_up(server) and not server.firing())
        relay.turn("log", Mode.LOSE)
        fires(server, "TidegateCutOff")
        relay.turn("log", Mode.PASS)
        clears(server, "TidegateCutOff")


def no_pipeline_and_full_disk() -> None:
    """Run no pipeline, then one; then fill the disk of the store and of the cache.

    Raises:
      NoFileSystem: no small disk can be mounted here.
    """
    folder = fresh_folder("disk")
    with small_disk(folder / "mount", DISK_MEBIBYTES) as disk:
        store = f"file:{disk / 'objects'}"
        settings = {"object.store": store, "disk.cache.dir": str(disk / "cache"), **QUICK}
        settings["wal.inline.max.bytes"] = "0"
        with _gateway(settings) as broker, _prometheus(broker) as server:
            with _writing(broker):
                fires(server, "TidegateNoPipeline")
                with _pipeline(broker, store):
                    clears(server, "TidegateNoPipeline")
            with full(disk):
                consume(broker.bootstrap, 10, "reader")
                fires(server, "TidegateDiskCacheFails")
                late = Thread(target=produce, args=(broker.bootstrap, "late"))
                late.start()
                fires(server, "TidegateStoreTakesNoWrites")
            late.join()
            clears(server, "TidegateDiskCacheFails", "TidegateStoreTakesNoWrites")


CASES: Final[Mapping[str, Callable[[], None]]] = {
    "lost-gateway-and-lagging-group": lost_gateway_and_lagging_group,
    "cut-off": cut_off,
    "no-pipeline-and-full-disk": no_pipeline_and_full_disk,
}


@contextmanager
def _gateway(settings: Mapping[str, str]) -> Generator[LocalBroker]:
    broker = start("tidegate", settings)
    assert isinstance(broker, LocalBroker)
    try:
        yield broker
    finally:
        broker.stop()
        shutil.rmtree(broker.folder / "data", ignore_errors=True)


@contextmanager
def _prometheus(broker: LocalBroker) -> Generator[prometheus.Prometheus]:
    with prometheus.running(admin_of(broker), rules=short_rules()) as server:
        becomes(lambda: is_up(server) and not server.firing())
        yield server


@contextmanager
def _writing(broker: LocalBroker) -> Generator[None]:
    """Write records, each of which becomes an object, until the block ends."""
    end = Event()

    def write() -> None:
        while not end.wait(PAUSE_SECONDS):
            produce(broker.bootstrap, "early")

    writer = Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        end.set()
        writer.join()


@contextmanager
def _pipeline(broker: LocalBroker, store: str) -> Generator[None]:
    command = [sys.executable, "-m", "tidegate_gateway", "pipeline", "run", *PIPELINE]
    command += ["--interval-seconds", "1", "--object-store", store]
    command += ["--data", str(broker.folder / "data")]
    process = spawn(command, broker.folder / "pipeline.log")
    try:
        yield
    finally:
        process.stop()
