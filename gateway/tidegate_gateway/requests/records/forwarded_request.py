"""The batches of a client's request that go to one broker of a source, and their answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tidegate_coordination.client.retries import is_metadata_old
from tidegate_coordination.client.wire.versions import ANY_VERSION
from tidegate_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from tidegate_protocol.plain_produce import TOPIC_IDS_FROM, TopicKey

from ...network.connection import Connection, ReplyFlusher
from ...network.forward_line import ForwardLine, Place
from .forwarded_answers import (
    code_for_client,
    may_come_again,
    parts_by_place,
    write_answer,
    write_error,
)
from .produce_answers import Token
from .produce_rules import MAY_ADD_SINCE


@dataclass(frozen=True, slots=True, eq=False)
class MirroredBatch:
    """A batch to a mirrored topic.

    limit_bytes: the topic's known max.message.bytes.  shown_id: the source's id of the topic.
    topic_id: the stored id.
    """

    topic_id: bytes
    shown_id: bytes
    topic: str
    data: PartitionProduceData
    size_bytes: int
    limit_bytes: int
    token: Token
    is_transactional: bool

    @property
    def place(self) -> Place:
        """Return topic id and partition."""
        return self.topic_id, self.data.index

    def key(self, version: int) -> tuple[TopicKey, int]:
        """Return the partition's key in answers of a version."""
        return self.shown_id if version >= TOPIC_IDS_FROM else self.topic, self.data.index


class ForwardedRequest:
    """See forwards.Forward.

    version: of the client's request.  transactional_id, passes: see forwards.Forward.
    look: asks for the leaders of a topic of the source.  is_beyond_switch: see Forwards.
    """

    def __init__(
        self,
        connection: Connection,
        line: ForwardLine,
        batches: Sequence[MirroredBatch],
        *,
        acks: int,
        timeout_ms: int,
        version: int,
        transactional_id: str | None,
        passes: int,
        flusher: ReplyFlusher,
        look: Callable[[bytes], object],
        is_beyond_switch: Callable[[Place, int], bool],
    ) -> None:
        self.line = line
        self.places: Sequence[Place] = [each.place for each in batches]
        self.size_bytes = sum(each.size_bytes for each in batches)
        self.wait_seconds = timeout_ms / 1000
        self.transactional_id = transactional_id
        self.passes = passes
        self.versions = _versions(transactional_id, version)
        self._connection = connection
        self._batches = batches
        self._acks = acks
        self._timeout_ms = timeout_ms
        self._version = version
        self._flusher = flusher
        self._look = look
        self._is_beyond_switch = is_beyond_switch

    def request(self, version: int) -> ProduceRequest:
        """See forwards.Forward."""
        topics: dict[bytes, TopicProduceData] = {}
        for each in self._batches:
            topic = topics.get(each.topic_id)
            if topic is None:
                topic = topics[each.topic_id] = _topic(each, version)
            topic.partition_data.append(each.data)
        return ProduceRequest(
            self.transactional_id, self._acks, self._timeout_ms, list(topics.values())
        )

    def release(self) -> None:
        """Drop the references to the bytes of sent batches, which are in a receive buffer."""
        for each in self._batches:
            each.data.records = None

    def answered(self, response: ProduceResponse, version: int) -> None:
        """See forwards.Forward."""
        parts = parts_by_place(response, version)
        for each in self._batches:
            theirs = parts.get(each.key(version))
            if theirs is None:
                self.lose("the source did not answer for a forwarded batch")
            elif not theirs.error_code and self._is_beyond_switch(each.place, theirs.base_offset):
                self.lose("the source wrote it after the topic was switched")
            else:
                self._settle(each, theirs)
        self._flusher.flush()

    def _settle(self, batch: MirroredBatch, theirs: PartitionProduceResponse) -> None:
        if not theirs.error_code:
            return batch.token.fill(partial(write_answer, theirs=theirs))
        code = code_for_client(
            theirs.error_code, batch.size_bytes, batch.limit_bytes, self._version
        )
        if is_metadata_old((theirs.error_code,)):
            self._look(batch.topic_id)
        if may_come_again(code):
            self.line.refused.add(batch.place)
            self._connection.peer.was_refused = True
        return batch.token.fill(partial(write_error, theirs=theirs, code=code))

    def lose(self, reason: str) -> None:
        """See forwards.Forward."""
        self.line.lose()
        self._connection.peer.was_refused = True
        for each in self._batches:
            each.token.pending.forget()
        self._connection.abort(f"the outcome of a forwarded batch is unknown: {reason}")


def _versions(transactional_id: str | None, version: int) -> tuple[int, int]:
    """Return the versions in which a request has this meaning, and known errors (KIP-890)."""
    if transactional_id is None:
        return 0, ANY_VERSION
    return (MAY_ADD_SINCE, ANY_VERSION) if version >= MAY_ADD_SINCE else (0, version)


def _topic(batch: MirroredBatch, version: int) -> TopicProduceData:
    if version >= TOPIC_IDS_FROM:
        return TopicProduceData(topic_id=batch.shown_id)
    return TopicProduceData(batch.topic)
