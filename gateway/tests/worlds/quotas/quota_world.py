"""Helpers for tests of quotas at a whole gateway in memory."""

from __future__ import annotations

from tests.worlds.wire_client import WireClient, WireWorld, produce_request, request_frame
from tidegate_protocol.messages import alter_client_quotas as alter
from tidegate_protocol.messages import fetch as fe


async def set_quota(
    client: WireClient, entity: dict[str, str | None], **quotas: float | None
) -> None:
    """Set quotas of an entity; None removes a quota."""
    ops = [alter.OpData(key, value or 0.0, value is None) for key, value in quotas.items()]
    named = [alter.AlterClientQuotasRequestEntityData(kind, name) for kind, name in entity.items()]
    entry = alter.AlterClientQuotasRequestEntryData(named, ops)
    answer = await client.call("AlterClientQuotas", 1, alter.AlterClientQuotasRequest([entry]))
    [result] = answer.entries
    assert result.error_code == 0, result.error_message


def connect_as(world: WireWorld, client_id: str, host: str = "client") -> WireClient:
    """Open a connection of a client with this client id."""
    client = world.connect(host)
    client.client_id = client_id
    return client


def produce_frame(
    batch: bytes, number: int = 1, *, client_id: str = "test", acks: int = -1
) -> bytes:
    """Return a whole produce request of one batch to partition 0 of "t"."""
    request = produce_request([("t", 0, batch)], acks=acks)
    return request_frame("Produce", 9, request, number, client_id)


def fetch_request(
    offset: int,
    *,
    session_id: int = 0,
    session_epoch: int = -1,
    max_bytes: int = 1 << 24,
    wait_ms: int = 0,
) -> fe.FetchRequest:
    """Return a fetch of partition 0 of "t"."""
    asked = fe.FetchPartition(0, fetch_offset=offset, partition_max_bytes=1 << 24)
    return fe.FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[fe.FetchTopic(topic="t", partitions=[asked])],
    )
