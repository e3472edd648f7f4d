"""FindCoordinator: versions 0-6.

A group belongs to the gateway that holds its claim.  If no live gateway holds the claim, the
group's id hashes to one of the gateways that answer and have the client's listener.  If the holder
lacks this listener, the client cannot reach the group, so all gateways should have all listeners.
A gateway that is cut off from the metadata log names other gateways that it knows.  Otherwise
clients that ask only their given address (kafka-go) would be stuck.

Any gateway accepts any step of a transaction.  So a transactional id hashes to one of the gateways
in the zone of the client, and no gateway ever answers NOT_COORDINATOR for it.

A cluster below the metadata.version of transactions refuses transactional ids.  The Java client
asks with version 3 or later.  For a code that it does not expect here, such as UNSUPPORTED_VERSION,
it shows this gateway's text.  For TRANSACTIONAL_ID_AUTHORIZATION_FAILED it shows no text, and
people would look for ACLs.  librdkafka asks with versions up to 2.  For it only
TRANSACTIONAL_ID_AUTHORIZATION_FAILED is fatal, and it shows the text.  After any other code it
retries for ever.  A share group's key gets INVALID_REQUEST.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar

from tidegate_coordination.coordinator.coordinator import Coordinator as MetadataCoordinator
from tidegate_coordination.events.metadata_versions import TRANSACTIONS as TRANSACTIONS_LEVEL
from tidegate_coordination.placement.groups import chosen, server
from tidegate_coordination.state.offsets_topic import OFFSETS_TOPIC
from tidegate_coordination.state.writers.gateways import Gateway
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import find_coordinator as messages
from tidegate_protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

from ...groups.group_manager import GroupManager
from ...network.call import Call
from ...network.turns import Turns
from ...topics.internal_topics import TRANSACTIONS_TOPIC, InternalTopics
from ...unserved import TRANSACTIONS
from ...zones.cluster_view import ClusterView

SEVERAL_SINCE = 4
GROUP = 0
TRANSACTION = 1
# librdkafka asks with lower versions; see the module's docstring.
TEXT_SHOWN_SINCE = 3
NO_NODE = -1


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """Answers FindCoordinator requests."""

    coordinator: MetadataCoordinator
    internal_topics: InternalTopics
    groups: GroupManager
    view: ClusterView
    api_key: ClassVar[int] = ApiKey.FIND_COORDINATOR
    messages: ClassVar[ModuleType] = messages

    async def handle(self, call: Call, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
        """Name a gateway for each key."""
        listener = call.peer.listener
        keys = request.coordinator_keys if call.version >= SEVERAL_SINCE else [request.key]
        if request.key_type == TRANSACTION:
            found = await self._find_transactional(keys, call)
        else:
            found = await self._find_all(keys, request.key_type, listener)
        if call.version >= SEVERAL_SINCE:
            return FindCoordinatorResponse(coordinators=found)
        [one] = found
        return FindCoordinatorResponse(
            error_code=one.error_code,
            error_message=one.error_message,
            node_id=one.node_id,
            host=one.host,
            port=one.port,
        )

    async def _find_transactional(self, keys: Sequence[str], call: Call) -> list[Coordinator]:
        if self.coordinator.state.metadata_version < TRANSACTIONS_LEVEL:
            call.note_refused(TRANSACTIONS)
            return _no_transactions(keys, call.version)
        await self.internal_topics.ensure(TRANSACTIONS_TOPIC)
        turns = Turns()
        found: list[Coordinator] = []
        for key in keys:
            found.append(
                self._named(key, self._transactional_server(key, call), call.peer.listener)
            )
            await turns.count()
        return found

    def _transactional_server(self, key: str, call: Call) -> Gateway | None:
        among = self.groups.candidates(call.peer.listener)
        view = self.view.of_client(call)
        of_zone = view.gateways.by_zone.get(view.zone, []) if view.zone is not None else []
        near = {node: among[node] for node in of_zone if node in among}
        return self._answering(chosen(key, near or among), key, near or among)

    async def _find_all(
        self, keys: Sequence[str], key_type: int, listener: str
    ) -> list[Coordinator]:
        if key_type == GROUP:
            await self.internal_topics.ensure(OFFSETS_TOPIC)
        turns = Turns()
        among = self.groups.candidates(listener)
        found: list[Coordinator] = []
        for key in keys:
            found.append(self._find(key, key_type, listener, among))
            if await turns.count():
                among = self.groups.candidates(listener)
        return found

    def _find(
        self, key: str, key_type: int, listener: str, among: Mapping[int, Gateway]
    ) -> Coordinator:
        if key_type == GROUP:
            return self._find_group(key, listener, among)
        return _refused(
            key, ErrorCode.INVALID_REQUEST, f"Coordinators of type {key_type} are not supported"
        )

    def _find_group(
        self, group_id: str, listener: str, among: Mapping[int, Gateway]
    ) -> Coordinator:
        found = server(self.coordinator.state, group_id, among)
        return self._named(group_id, self._answering(found, group_id, among), listener)

    def _named(self, key: str, gateway: Gateway | None, listener: str) -> Coordinator:
        if gateway is None and self.coordinator.is_cut_off:
            return _refused(
                key,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                "This gateway does not reach its metadata log",
            )
        endpoint = gateway.endpoint(listener) if gateway is not None else None
        if gateway is None or endpoint is None:
            return _refused(
                key,
                ErrorCode.COORDINATOR_NOT_AVAILABLE,
                f"No gateway that serves it has a listener {listener!r}",
            )
        return Coordinator(
            key=key,
            node_id=gateway.node_id,
            host=endpoint.host,
            port=endpoint.port,
            error_code=ErrorCode.NONE,
            error_message=None,
        )

    def _answering(
        self, found: Gateway | None, key: str, among: Mapping[int, Gateway]
    ) -> Gateway | None:
        """Return the gateway to name.  A gateway that is cut off names another one that answers it,
        because it cannot see whose lease has expired.
        """
        if not self.coordinator.is_cut_off:
            return found
        me = self.coordinator.incarnation
        others = {node: each for node, each in among.items() if each.incarnation != me}
        return found if found in others.values() else chosen(key, others)


def _no_transactions(keys: Sequence[str], version: int) -> list[Coordinator]:
    code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if version >= TEXT_SHOWN_SINCE:
        code = ErrorCode.UNSUPPORTED_VERSION
    text = f"{TRANSACTIONS.what}: {TRANSACTIONS.advice}"
    return [_refused(key, code, text) for key in keys]


def _refused(key: str, code: ErrorCode, message: str) -> Coordinator:
    return Coordinator(
        key=key, node_id=NO_NODE, host="", port=NO_NODE, error_code=code, error_message=message
    )
