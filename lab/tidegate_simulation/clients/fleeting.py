"""A topic that is deleted and created again, under load: same name, new id, new keys.

A stale gateway may show the former topic for a while.  So a reader first makes a gateway read the
log to its end, on the connection that it reads from.  After that the gateway may show nothing of
the former topic, by name or by id.

The owner deletes the topic by name, as real clients do, or by id.  Once a gateway has acknowledged
the deletion and the topic exists again, no delayed copy of the request may delete it; see
late_checks.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import delete_topics

from ..checks.late_checks import CREATE, DELETE
from .client import Client, Disconnected
from .late_admins import CleanClient
from .producers import Batch, Producer
from .readers import Reader, UnknownTopic, list_one
from .workload import Key, Workload, create_topic, own_retention

NAME = "fleeting"
PARTITIONS = 2
_LATEST = -1


@dataclass(slots=True)
class Lives:
    """keys: of the present topic; none between a deletion and a creation.  former: earlier keys.

    version: rises when a deletion begins, when it ends, and when the topic is created again.
    """

    keys: list[Key] = field(default_factory=list[Key])
    former: list[Key] = field(default_factory=list[Key])
    version: int = 0


class TopicOwner:
    """Creates the topic, deletes it, and creates it again."""

    def __init__(self, workload: Workload, name: str, lives: Lives) -> None:
        self.client: Client = CleanClient(workload.world, name)
        self._workload = workload
        self._lateness = workload.world.watch.lateness
        self._history = workload.world.history
        self.lives = lives

    async def run(self) -> None:
        """Create and delete until no operation is left."""
        while True:
            await self._create()
            self.client.close()  # so that the next request may meet a stale gateway
            await self.client.pause(self.client.rng.choice((0.0, 1.0, 4.0)))
            if not self._workload.take():
                break
            await self._delete()
            self.client.close()
            await self.client.pause(self.client.rng.choice((0.0, 0.0, 2.0)))
        self._workload.keys += self.lives.keys  # this topic stays: a final reader reads it
        self.client.close()

    async def _create(self) -> None:
        lives = self.lives
        known = {key.topic_id for key in lives.former}
        self._lateness.begins(NAME, CREATE)
        configs = own_retention(self.client.world)
        topic_id = await create_topic(self.client, NAME, PARTITIONS, configs, known)
        lives.keys = self._workload.new_keys(NAME, topic_id, range(PARTITIONS))
        self._lateness.acknowledged(NAME)
        lives.version += 1
        value = {"topic": NAME, "keys": [key.number for key in lives.keys]}
        self._history.note(self.client.name, "ok", "created", value)

    async def _delete(self) -> None:
        lives = self.lives
        keys, lives.keys = lives.keys, []
        lives.former += keys
        lives.version += 1
        value = {"keys": [key.number for key in keys]}
        invoke = self._history.invoke(self.client.name, "delete", value)
        by_name = self.client.rng.random() < 0.7
        wanted = (
            delete_topics.DeleteTopicState(name=NAME)
            if by_name
            else delete_topics.DeleteTopicState(topic_id=keys[0].topic_id)
        )
        gone = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if by_name else ErrorCode.UNKNOWN_TOPIC_ID
        self._lateness.begins(NAME, DELETE)
        request = delete_topics.DeleteTopicsRequest([wanted], timeout_ms=30_000)
        may_be_gone = False
        while True:
            try:
                response = await self.client.call("DeleteTopics", delete_topics, 6, request)
            except Disconnected:
                may_be_gone = True
                await self.client.pause(1.0)
                continue
            code = ErrorCode(response.responses[0].error_code)
            if code != ErrorCode.REQUEST_TIMED_OUT:
                break
        self._lateness.acknowledged(NAME)
        if code != ErrorCode.NONE and not (may_be_gone and code == gone):
            self._workload.world.complain("false error", f"DeleteTopics: {code.name}")
        lives.version += 1
        self._history.ok(invoke)


class FleetingWriter(Producer):
    """Sends to the present topic, and now and then to a deleted one of the same name."""

    def __init__(self, workload: Workload, name: str, lives: Lives) -> None:
        super().__init__(workload, name)
        self._version = self.rng.choice((3, 13, 13))
        self._lives = lives
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[int, int] = {}

    async def run(self) -> None:
        """Send until no operation is left."""
        if self.rng.random() < 0.5:
            self._producer = await self.introduce()
        while self.workload.take():
            key = self._choose()
            if key is not None:
                await self._send(key)
            await self.client.pause(self.rng.choice((0.1, 1.5)))
        self.client.close()

    def _choose(self) -> Key | None:
        lives = self._lives
        if self.uses_ids and lives.former and self.rng.random() < 0.3:
            return self.rng.choice(lives.former)
        return self.rng.choice(lives.keys) if lives.keys else None

    async def _send(self, key: Key) -> None:
        batch = self.make(key, self._producer, self._sequences)
        version = self._lives.version
        try:
            connection = await self.client.connection()
            sent = await self.submit(connection, [batch], -1)
            response = await sent.reply.wait(35.0)
        except Disconnected:
            self.client.close()
            await self._give_up(batch, "")
            return
        _, code, offset = self.results(sent, response)[0]
        is_certain = self.uses_ids or version == self._lives.version
        if code == ErrorCode.NONE and is_certain:
            self.history.ok(batch.invoke, offset=offset)
        else:
            await self._give_up(batch, code.name if is_certain else "")

    async def _give_up(self, batch: Batch, error: str) -> None:
        """Take a new producer id: after this outcome a gateway could refuse the sequence."""
        more = {"error": error} if error else {}
        self.history.info(batch.invoke, **more)
        if self._producer is not None:
            self._producer, self._sequences = await self.introduce(), {}


class FleetingReader(Reader):
    """Reads the present topic, and now and then a deleted one by its id."""

    def __init__(self, workload: Workload, name: str, lives: Lives) -> None:
        super().__init__(workload, name, sessions=False)
        self._lives = lives
        self._sure = (-1, -1)

    async def run(self) -> None:
        """Read until no operation is left."""
        while self.workload.operations_left > 0:
            keys = self._choose()
            if keys:
                self.assign(dict.fromkeys(keys, self.workload.first_offset))
                await self._read(self._lives.version)
            await self.client.pause(1.0)
        self.client.close()

    def _choose(self) -> list[Key]:
        lives = self._lives
        if self.uses_ids and lives.former and self.rng.random() < 0.3:
            return [self.rng.choice(lives.former)]
        return list(lives.keys)

    async def _read(self, version: int) -> None:
        for _ in range(self.rng.randint(2, 10)):
            if self._lives.version != version or not self.workload.take():
                return
            if await self._make_sure(version):
                await self.poll()
            await self.client.pause(0.5)

    async def _make_sure(self, version: int) -> bool:
        """Make the gateway read the log, on the connection that the reader uses."""
        if self.client.is_connected and self._sure == (self.client.link, version):
            return True
        key = next(iter(self.positions))
        try:
            offset = await list_one(self.client, key, _LATEST)
        except UnknownTopic:
            offset = -1
        if offset is not None and self.client.is_connected:
            self._sure = (self.client.link, version)
        return False

    def is_valid(self) -> bool:
        """Return whether the answer came on the connection whose gateway has read the log."""
        return self._sure == (self.client.link, self._lives.version)

    async def _reset(self, key: Key) -> None:
        """Keep the position, because no client deletes records of the topic."""
