"""Batches that were about to be committed here when their topic began to return to its source.

The log refused their commit, so they are not written.  Clients do not notice this: the gateway
keeps the bytes until the fence of the return has ended.  Then it sends the batches to the source,
or appends them here again if the fence was lifted.  Each connection has a separate task for this.
The task keeps the order of the batches, and later batches wait for it; see network/forward_line.py.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Final

import structlog
import trio

from tidegate_coordination.state.topics import Topic, TopicTable
from tidegate_protocol.batches import read_header
from tidegate_protocol.messages.produce import PartitionProduceData, PartitionProduceResponse

from ...network.byte_budget import ByteBudget
from ...network.connection import Connection
from ...network.receiver import CloseConnection
from ...produce.wal_writer import WalWriter
from .produce_answers import Token, TurnedBatch
from .produce_forwarding import Forwarding, ProduceForwarding

_log = structlog.get_logger("tidegate.produce")

WAIT_SECONDS: Final = 30.0
"""For so long a batch may wait for the fence, and for room; about clients' request.timeout.ms."""


class TurnedBack:
    """See the module's docstring.

    max_bytes: the limit on waiting batches.  Beyond it the gateway closes connections, and clients
    send the batches again.
    """

    def __init__(
        self, forwarding: ProduceForwarding, topics: TopicTable, writer: WalWriter, max_bytes: int
    ) -> None:
        self._forwarding = forwarding
        self._topics = topics
        self._writer = writer
        self._room = ByteBudget(max_bytes)
        self._waiting: dict[Connection, deque[TurnedBatch]] = {}

    def take(self, batch: TurnedBatch) -> None:
        """Let a batch begin again, after the waiting batches of its connection.  Never waits."""
        pending = batch.token.pending
        if not pending.waits_for(batch.token):
            return  # the client got a timeout, and may have sent the batch again
        connection = pending.connection
        topic = self._topics.by_id.get(batch.topic_id)
        # otherwise later batches may already be written here
        is_held = topic is not None and self._forwarding.takes(topic)
        is_free = not read_header(memoryview(batch.records), 0).is_transactional
        if not (is_held and is_free and self._room.take_nowait(len(batch.records))):
            return pending.abort()
        waiting = self._waiting.get(connection)
        if waiting is None:
            if not connection.start_soon(partial(self._begin_all, connection)):
                self._room.give(len(batch.records))
                return pending.forget()
            waiting = self._waiting[connection] = deque()
        waiting.append(batch)
        self._forwarding.line_of(connection).turned_back += 1
        connection.peer.was_refused = True  # later batches must not overtake it on the fast path

    async def _begin_all(self, connection: Connection) -> None:
        """Begin the batches of a connection again.

        Raises:
          CloseConnection: the client must send the batches again, or their outcome is unknown.
        """
        waiting, peer = self._waiting[connection], connection.peer
        line = self._forwarding.line_of(connection)
        try:
            while waiting:
                await self._begin(waiting[0])
                connection.flush()  # without the source, the batch was refused at once
                self._room.give(len(waiting.popleft().records))
                line.began_again()
            peer.was_refused = line.is_lost or bool(line.refused) or peer.was_sent_away
        except CloseConnection:
            raise
        except Exception as error:
            _log.exception("a batch that was turned back could not begin again")
            raise CloseConnection("internal error") from error
        finally:
            del self._waiting[connection]
            for each in waiting:
                self._room.give(len(each.records))
                each.token.pending.forget()

    async def _begin(self, batch: TurnedBatch) -> None:
        topic = self._topics.by_id.get(batch.topic_id)
        pending = batch.token.pending
        if topic is None:
            raise CloseConnection
        forwarding = Forwarding(
            pending.connection,
            pending,
            trio.current_time() + WAIT_SECONDS,
            partial(self._append, batch),
            is_again=True,
        )
        self._forwarding.turned(forwarding, topic, batch)
        await self._forwarding.forward(forwarding, pending.acks, pending.timeout_ms)

    async def _append(
        self,
        batch: TurnedBatch,
        topic: Topic | None,
        data: PartitionProduceData,
        answer: PartitionProduceResponse,
    ) -> None:
        """Append a batch here again, since its topic did not return.

        Raises:
          CloseConnection: this is not possible now, or the client got a timeout meanwhile.
        """
        with trio.move_on_after(WAIT_SECONDS):
            await self._writer.wait_for_room()
        if topic is None or topic.link or not self._writer.has_room:
            raise CloseConnection
        pending = batch.token.pending
        if not pending.waits_for(batch.token):
            raise CloseConnection
        token = Token(pending, answer)
        pending.add(token)
        self._writer.wrote(pending.connection.peer.client_id or "", len(batch.records))
        header = read_header(memoryview(batch.records), 0)
        self._writer.append(topic.topic_id, data.index, batch.records, header, token)
