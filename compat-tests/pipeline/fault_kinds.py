"""The faults.  Each is a function that returns whether its effect was seen: whether it landed.

Most faults wait for a new segment in the store's folder.  Then a task is at work, and its segment
is not published yet.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from harness.broker import LocalBroker

from pipeline.audit import StoreFolder, load, named, working_driver
from pipeline.drivers import Driver, Drivers, kill, wait_until
from pipeline.ledger import Ledger
from pipeline.load import ADMIN_SECONDS, Doomed, quiet

KEYED, CUT = "keyed", "cut"
SEGMENT_SECONDS = 25.0
TAKEN_SECONDS = 30.0
LOST_SECONDS = 8.0
READY_SECONDS = 120.0
DELETED = "its topic was deleted"
WAITS = "another pipeline holds the claim"


@dataclass(slots=True)
class World:
    """The processes, data and topics that faults hit."""

    broker: LocalBroker
    data: Path
    drivers: Drivers
    store: StoreFolder
    doomed: Doomed
    cut: Ledger
    rng: Random

    def driver(self) -> Driver:
        """Return a driver at work; start one if there is none."""
        alive = self.drivers.alive
        if alive:
            return alive[0]
        driver = self.start_driver()
        if not wait_until(lambda: driver.published() > 0, READY_SECONDS, pause=0.3):
            raise TimeoutError(f"a driver does nothing\n{driver.log_text()[-2000:]}")
        return driver

    def start_driver(self) -> Driver:
        """Start a driver with random options."""
        speculation, small = self.rng.random() < 0.3, self.rng.random() < 0.6
        return self.drivers.start(speculation=speculation, small=small)

    def new_segment(self) -> str:
        """Wait for a task to write a segment; return its key, "" if none came."""
        before = self.store.segments()
        new: set[str] = set()

        def there() -> bool:
            new.update(self.store.segments() - before)
            return bool(new)

        wait_until(there, SEGMENT_SECONDS)
        return min(new, default="")

    def is_published(self, key: str) -> bool:
        """Return whether the log names an object, live or dead; True for an empty key."""
        return not key or key in named(load(self.data)).all

    def admin(self) -> AdminClient:
        """Return a client of the gateway."""
        return AdminClient({"bootstrap.servers": self.broker.bootstrap}, logger=quiet)

    def pause(self, longest: float) -> None:
        """Wait for a random time."""
        time.sleep(self.rng.uniform(0, longest))


Fault = Callable[[World], bool]


def kill_driver(world: World) -> bool:
    """kill -9 of the driver alone; its JVM and workers continue until they notice."""
    driver = world.driver()
    world.pause(2.0)
    driver.kill_alone()
    return True


def kill_driver_before_commit(world: World) -> bool:
    """kill -9 of the driver between a task's PUT of a segment and the commit of this segment."""
    driver = world.driver()
    key = world.new_segment()
    if world.rng.random() < 0.5:
        driver.kill_machine()
    else:
        driver.kill_alone()
    return not world.is_published(key)


def kill_worker(world: World) -> bool:
    """kill -9 of Spark's Python workers while a task writes."""
    driver = world.driver()
    world.new_segment()
    return any([kill(each) for each in driver.workers()])


def kill_jvm(world: World) -> bool:
    """kill -9 of Spark's JVM, while its driver continues."""
    driver = world.driver()
    world.new_segment()
    said = len(driver.log_text())
    struck = any([kill(each) for each in driver.jvms()])
    return struck and wait_until(
        lambda: driver.says("starting it again", since=said), TAKEN_SECONDS, pause=0.1
    )


def two_drivers(world: World) -> bool:
    """Stop a driver between PUT and commit until another has taken over, then let it continue."""
    first = world.driver()
    second = world.start_driver()
    if not wait_until(lambda: second.says(WAITS), READY_SECONDS, pause=0.3):
        return False
    world.new_segment()
    first.signal(signal.SIGSTOP)
    before = working_driver(load(world.data))
    try:
        taken = wait_until(
            lambda: working_driver(load(world.data)) not in (before, 0), TAKEN_SECONDS, pause=0.3
        )
        taken = taken and wait_until(lambda: second.published() > 0, READY_SECONDS, pause=0.3)
    finally:
        first.signal(signal.SIGCONT)
    world.pause(3.0)
    world.rng.choice([first, second]).stop()
    return taken


def lose_object(world: World) -> bool:
    """Hide an object for a while, so that a task fails."""
    driver = world.driver()
    path = world.store.newest_wal()
    if path is None:
        return False
    said = len(driver.log_text())
    away = path.with_name(f"{path.name}.away")
    try:
        path.rename(away)
    except FileNotFoundError:
        return False
    try:
        return wait_until(lambda: driver.says(path.name, since=said), LOST_SECONDS, pause=0.05)
    finally:
        away.rename(path)


def delete_records(world: World) -> bool:
    """Delete records up to some offset of a topic while it is merged."""
    world.driver()
    world.new_segment()
    place = TopicPartition(CUT, 0)
    admin = world.admin()
    newest = max(world.cut.at.copy(), default=0)
    place.offset = world.rng.randint(newest // 2, newest)
    answers = admin.delete_records([place], request_timeout=ADMIN_SECONDS)
    [future] = answers.values()
    return bool(future.result(ADMIN_SECONDS).low_watermark >= place.offset)


def delete_topic(world: World) -> bool:
    """Delete a topic while it is merged; it landed if a unit was dropped for this reason."""
    world.driver()
    before = world.drivers.dropped()[DELETED]
    world.new_segment()
    world.doomed.end()
    landed = wait_until(lambda: world.drivers.dropped()[DELETED] > before, 3.0, pause=0.1)
    world.doomed.begin()
    return landed


def kill_gateway(world: World) -> bool:
    """kill -9 of the gateway, and a new start."""
    world.driver()
    world.pause(1.0)
    world.broker.kill()
    world.broker.start()
    return True


def cut_power(world: World) -> bool:
    """kill -9 of gateway and driver at once, between PUT and commit."""
    driver = world.driver()
    key = world.new_segment()
    driver.kill_machine()
    world.broker.kill()
    landed = not world.is_published(key)
    world.broker.start()
    return landed


def flip_policy(world: World) -> bool:
    """Set the policy of a compacted topic to delete for a moment, while it is compacted."""
    world.driver()
    world.new_segment()
    set_policy(world.admin(), "delete")
    world.pause(1.5)
    set_policy(world.admin(), "compact")
    world.pause(1.5)
    return True


def set_policy(admin: AdminClient, policy: str) -> None:
    """Set the cleanup policy of the compacted topic."""
    entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, KEYED, incremental_configs=[entry])
    [future] = admin.incremental_alter_configs([resource]).values()
    future.result(ADMIN_SECONDS)


FAULTS: Final[dict[str, Fault]] = {
    "driver killed": kill_driver,
    "driver killed between PUT and commit": kill_driver_before_commit,
    "worker killed": kill_worker,
    "JVM killed": kill_jvm,
    "two drivers": two_drivers,
    "object away": lose_object,
    "DeleteRecords": delete_records,
    "topic deleted": delete_topic,
    "gateway killed": kill_gateway,
    "power cut": cut_power,
    "policy flipped": flip_policy,
}


def strike(name: str, world: World) -> bool:
    """Inject a fault; return whether it landed."""
    with suppress(KafkaException):  # an answer did not come in time
        return FAULTS[name](world)
    return False
