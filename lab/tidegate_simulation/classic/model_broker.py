"""One broker of the model: bytes of requests in, bytes of answers out.

Requests of a connection are answered one after another, as Kafka does.  A request that the profile
does not speak closes the connection; only ApiVersions has an answer for that (KIP-511).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import ModuleType
from typing import Any, Final, NamedTuple, cast

import trio

from tidegate_protocol.apis import ApiKey
from tidegate_protocol.errors import RemoteProtocolError
from tidegate_protocol.frames import frame, split_frames
from tidegate_protocol.headers import (
    RequestHeader,
    decode_request_header,
    response_header,
)
from tidegate_protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    alter_configs,
    api_versions,
    delete_groups,
    describe_acls,
    describe_client_quotas,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_transactions,
    describe_user_scram_credentials,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    txn_offset_commit,
)
from tidegate_protocol.primitives import Buffer

from .answers.cluster import (
    answer_api_versions,
    answer_describe_cluster,
    answer_find_coordinator,
    answer_metadata,
    unknown_api_versions,
)
from .answers.configs import (
    answer_alter_configs,
    answer_describe_configs,
    answer_incremental_alter_configs,
)
from .answers.fetch import answer_fetch
from .answers.group_deletions import answer_delete_groups, answer_offset_delete
from .answers.group_offsets import answer_offset_commit, answer_offset_fetch
from .answers.group_views import answer_describe_groups, answer_list_groups
from .answers.members import (
    answer_heartbeat,
    answer_join_group,
    answer_leave_group,
    answer_sync_group,
)
from .answers.offsets import answer_epochs, answer_list_offsets, answer_producers
from .answers.produce import answer_produce
from .answers.security import answer_describe_acls, answer_describe_quotas, answer_describe_users
from .answers.transaction_views import answer_describe_transactions, answer_list_transactions
from .answers.transactions import (
    answer_add_offsets,
    answer_add_partitions,
    answer_end_txn,
    answer_init_producer_id,
)
from .answers.txn_offsets import answer_txn_offset_commit
from .broker_state import Asked, BrokerState, ConnectionClosed
from .rights import ANONYMOUS

_MAX_FRAME_BYTES: Final = 104_857_600  # socket.request.max.bytes
_RECEIVE_BYTES: Final = 1 << 16


class _Api(NamedTuple):
    messages: ModuleType
    answer: Callable[[Asked, Any], Awaitable[Any]]


_APIS: Final = {
    ApiKey.PRODUCE: _Api(produce, answer_produce),
    ApiKey.FETCH: _Api(fetch, answer_fetch),
    ApiKey.LIST_OFFSETS: _Api(list_offsets, answer_list_offsets),
    ApiKey.METADATA: _Api(metadata, answer_metadata),
    ApiKey.OFFSET_COMMIT: _Api(offset_commit, answer_offset_commit),
    ApiKey.OFFSET_FETCH: _Api(offset_fetch, answer_offset_fetch),
    ApiKey.FIND_COORDINATOR: _Api(find_coordinator, answer_find_coordinator),
    ApiKey.JOIN_GROUP: _Api(join_group, answer_join_group),
    ApiKey.HEARTBEAT: _Api(heartbeat, answer_heartbeat),
    ApiKey.LEAVE_GROUP: _Api(leave_group, answer_leave_group),
    ApiKey.SYNC_GROUP: _Api(sync_group, answer_sync_group),
    ApiKey.DESCRIBE_GROUPS: _Api(describe_groups, answer_describe_groups),
    ApiKey.LIST_GROUPS: _Api(list_groups, answer_list_groups),
    ApiKey.API_VERSIONS: _Api(api_versions, answer_api_versions),
    ApiKey.INIT_PRODUCER_ID: _Api(init_producer_id, answer_init_producer_id),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: _Api(offset_for_leader_epoch, answer_epochs),
    ApiKey.ADD_PARTITIONS_TO_TXN: _Api(add_partitions_to_txn, answer_add_partitions),
    ApiKey.ADD_OFFSETS_TO_TXN: _Api(add_offsets_to_txn, answer_add_offsets),
    ApiKey.END_TXN: _Api(end_txn, answer_end_txn),
    ApiKey.TXN_OFFSET_COMMIT: _Api(txn_offset_commit, answer_txn_offset_commit),
    ApiKey.DESCRIBE_ACLS: _Api(describe_acls, answer_describe_acls),
    ApiKey.DESCRIBE_CONFIGS: _Api(describe_configs, answer_describe_configs),
    ApiKey.ALTER_CONFIGS: _Api(alter_configs, answer_alter_configs),
    ApiKey.DELETE_GROUPS: _Api(delete_groups, answer_delete_groups),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _Api(
        incremental_alter_configs, answer_incremental_alter_configs
    ),
    ApiKey.OFFSET_DELETE: _Api(offset_delete, answer_offset_delete),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _Api(describe_client_quotas, answer_describe_quotas),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _Api(
        describe_user_scram_credentials, answer_describe_users
    ),
    ApiKey.DESCRIBE_CLUSTER: _Api(describe_cluster, answer_describe_cluster),
    ApiKey.DESCRIBE_PRODUCERS: _Api(describe_producers, answer_producers),
    ApiKey.DESCRIBE_TRANSACTIONS: _Api(describe_transactions, answer_describe_transactions),
    ApiKey.LIST_TRANSACTIONS: _Api(list_transactions, answer_list_transactions),
}


class ModelBroker:
    """One life of a broker; see the module's head."""

    def __init__(self, state: BrokerState) -> None:
        self.state = state

    async def serve(self, stream: trio.abc.Stream, principal: str = ANONYMOUS) -> None:
        """Answer the requests of one connection until either side closes it."""
        received = bytearray()
        try:
            async with stream:
                while chunk := await stream.receive_some(_RECEIVE_BYTES):
                    received += chunk
                    await self._answer_frames(stream, received, principal)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        except (ConnectionClosed, RemoteProtocolError):
            pass  # the stream is closed, which is the answer

    async def _answer_frames(
        self, stream: trio.abc.Stream, received: bytearray, principal: str
    ) -> None:
        data = memoryview(bytes(received))
        frames = split_frames(data, max_frame_bytes=_MAX_FRAME_BYTES)
        del received[: frames.rest_position]
        for start, end in frames.whole:
            answer = await self.answer(data[start:end], principal)
            if answer is not None:
                await stream.send_all(frame(answer))

    async def answer(self, request: memoryview, principal: str = ANONYMOUS) -> bytes | None:
        """Answer one request, header and all; None for a Produce with acks=0.

        Raises:
          ConnectionClosed: Kafka gives no answer but closes the connection.
          RemoteProtocolError: the request cannot be read; close the connection.
        """
        header = decode_request_header(request)
        profile = self.state.cluster.profile
        if not profile.speaks(header.api_key, header.api_version):
            if header.api_key != ApiKey.API_VERSIONS:
                raise ConnectionClosed
            body: Any = api_versions.encode_response(unknown_api_versions(profile), 0)
            return response_header(header.correlation_id, header.api_key, 0) + bytes(body)
        return await self._answered(header, request, principal)

    async def _answered(
        self, header: RequestHeader, request: memoryview, principal: str
    ) -> bytes | None:
        api, version = _APIS[ApiKey(header.api_key)], header.api_version
        decoded = api.messages.decode_request(request[header.body_position :], version)
        asked = Asked(self.state, version, principal, header.client_id)
        response = await api.answer(asked, decoded)
        if response is None:
            return None
        body: Any = api.messages.encode_response(response, version)
        parts = cast("list[Buffer]", body) if isinstance(body, list) else [body]
        head = response_header(header.correlation_id, header.api_key, version)
        return b"".join([head, *parts])
