"""A producer that sends malformed batches among sound ones, in the same requests.

A gateway must refuse each malformed batch, name the records where Kafka does, and store nothing of
the batch.  A malformed batch has the sequence of the next sound batch of its partition.  If a
gateway stored it, the sound batch would look like a repeat.  Sound batches of the same request must
be answered as usual.

The producer makes a topic whose records gateways compress again, in threads.
"""

from __future__ import annotations

from typing import Any, Final

from tidegate_protocol.error_codes import ErrorCode

from ..plans.malformed_plan import PREFIX
from .malformed_batches import Sound, malformed_batch
from .producers import ELSEWHERE, Batch, IdempotentProducer, Request
from .workload import Workload, create_topic, own_retention

_TOPIC: Final = "packed"
_CODECS: Final = ("gzip", "snappy", "lz4")
_SHARE: Final = 0.6
_ALONE_SHARE: Final = 0.3


class Careless(IdempotentProducer):
    """The producer of malformed batches."""

    def __init__(self, workload: Workload, name: str) -> None:
        super().__init__(workload, name)
        self._version = self.rng.choice((9, 13))  # versions whose answers name records, with zstd
        # Malformed batches without an answer, and the places of the records that an answer named.
        self._open: set[Batch] = set()
        self._named: dict[Batch, list[int]] = {}

    async def run(self) -> None:
        """Make the topic, and send until no operation is left."""
        codec = {"compression.type": self.rng.choice(_CODECS)}
        configs = own_retention(self.workload.world) | codec
        topic_id = await create_topic(self.client, _TOPIC, 1, configs)
        self.workload.keys += self.workload.new_keys(_TOPIC, topic_id, [0])
        await super().run()

    async def _round(self) -> None:
        await super()._round()
        for batch in sorted(self._open, key=lambda each: each.invoke.index):
            self.history.info(batch.invoke)
        self._open.clear()
        self._named.clear()

    def _requests(self) -> list[list[Batch]]:
        requests = super()._requests()
        if self.rng.random() < _ALONE_SHARE:
            requests.append([])
        for each in requests:
            if not each or self.rng.random() < _SHARE:
                self._add_malformed(each)
        return [each for each in requests if each]

    def _add_malformed(self, request: list[Batch]) -> None:
        """Put a malformed batch of another partition among those of a request."""
        taken = {each.key for each in request}
        # Topics with LogAppendTime are left out: another client changes their max.message.bytes.
        free = [
            each
            for each in self.workload.keys
            if each not in taken and each.number not in self.workload.append_time
        ]
        if not free or self._identity is None:
            return
        key, identity = self.rng.choice(free), self._identity
        values = self.workload.values(self.rng.randint(1, 3))
        timestamp, sequence = int(self.workload.world.wall_clock() * 1000), identity.sequences
        made = malformed_batch(
            self.rng, Sound(values, timestamp, identity.producer, sequence.get(key.number, 0))
        )
        value: dict[str, Any] = {
            "key": key.number,
            "values": values,
            "producer": list(identity.producer),
            "malformed": made.kind,
            "due": made.code.name,
        }
        # If a gateway's clock is behind, all records may be too new for it.
        if not self.workload.world.plan.has_wrong_clocks:
            value["named"] = list(made.named)
        batch = Batch(key, made.data, self.history.invoke(self.client.name, "send", value))
        self._open.add(batch)
        request.insert(self.rng.randint(0, len(request)), batch)

    def results(self, sent: Request, response: Any) -> list[tuple[Batch, ErrorCode, int]]:
        """See Producer; note which records an answer names."""
        named = {
            (topic.topic_id if self.uses_ids else topic.name, part.index): [
                each.batch_index for each in part.record_errors
            ]
            for topic in response.responses
            for part in topic.partition_responses
        }
        for each in sent.batches:
            name = each.key.topic_id if self.uses_ids else each.key.topic
            self._named[each] = named.get((name, each.key.partition), [])
        return super().results(sent, response)

    def _settle(self, batch: Batch, code: ErrorCode, offset: int) -> None:
        if batch not in self._open:
            return super()._settle(batch, code, offset)
        self._open.remove(batch)
        value = batch.invoke.value or {}
        if code == ErrorCode.NONE:
            self.history.ok(batch.invoke, offset=offset)
        else:
            named = self._named[batch]
            self.history.fail(batch.invoke, error=code.name, were_named=named)
        if code.name == value["due"]:
            self.workload.world.strikes.count(f"{PREFIX}{value['malformed']}")
        if code in ELSEWHERE:
            self.client.close()
