"""Requests for features that are not served: logged once a minute, with the client setting to
change.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock

from tests.worlds.cluster.neighbour import TOPIC, neighboured
from tests.worlds.wire_client import Closed, records_batch
from tidegate_coordination.events.metadata_versions import FEATURE_NAME, TRANSACTIONS
from tidegate_gateway.counting.refused_features import (
    MAX_KEPT,
    MAX_LINES,
    SAY_AGAIN_SECONDS,
    RefusedFeatures,
)
from tidegate_gateway.network.call import Peer
from tidegate_gateway.unserved import Refusal
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.frames import frame
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import init_producer_id as ip

OLD = Refusal("Produce version 2 is not served", "use a newer client")


class World:
    """A clock that the test sets, and the log lines."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.refused = RefusedFeatures(lambda: self.now)

    def told(self, client_id: str | None, refusal: Refusal = OLD) -> list[Any]:
        """Refuse one more request; return the lines that it logs."""
        with capture_logs() as lines:
            self.refused.note(Peer("10.0.0.7", 4711, "PLAINTEXT", client_id), refusal)
        return list(lines)


def test_a_client_is_logged_once_a_minute_with_the_number_of_its_tries() -> None:
    world = World()
    [line] = world.told("orders-app")
    assert line == {
        "event": "a client asks for a feature that is not served",
        "log_level": "warning",
        "client_id": "orders-app",
        "peer": "10.0.0.7:4711",
        "what": OLD.what,
        "advice": OLD.advice,
        "times": 1,
    }
    for _ in range(59):
        world.now += 1
        assert world.told("orders-app") == []
    world.now += 1
    assert [each["times"] for each in world.told("orders-app")] == [60]


def test_each_client_and_feature_is_logged_on_its_own() -> None:
    world = World()
    assert world.told("a")
    assert world.told("b")
    assert world.told("a", Refusal("SASL", "set security.protocol"))
    assert world.told(None)[0]["client_id"] == ""
    assert world.told("a") == []


def test_a_client_with_random_names_fills_neither_memory_nor_log() -> None:
    world = World()
    lines = [line for n in range(3 * MAX_KEPT) for line in world.told(f"{n}" + "x" * 9999)]
    assert len(lines) == MAX_LINES
    assert max(len(each["client_id"]) for each in lines) == 128
    assert len(world.refused._said) == MAX_KEPT
    world.now += 60
    assert world.told("new")


@pytest.mark.parametrize(
    ("key", "version", "reason", "advice"),
    [
        (0, 2, "Produce version 2 is not served", "served is Produce 3 to 13"),
        (17, 99, "SaslHandshake version 99 is not served", "served is SaslHandshake 0 to 1"),
        (76, 99, "share groups are not served yet", "KafkaConsumer"),
        (68, 0, "KIP-848 are not served yet", "group.protocol=classic"),
        (999, 0, "unknown API key 999", "ApiVersions"),
    ],
)
async def test_an_unserved_request_is_logged_with_its_client(
    autojump_clock: MockClock, key: int, version: int, reason: str, advice: str
) -> None:
    head = key.to_bytes(2, "big") + version.to_bytes(2, "big") + bytes(4)
    async with neighboured() as scene:
        for _ in range(3):  # like a client that reconnects again and again
            client = scene.connect()
            await client.send(frame(head + b"\0\7old-app"))
            with pytest.raises(Closed):
                await client.receive()
        [line] = scene.refused
    assert line["client_id"] == "old-app"
    assert reason in line["what"]
    assert advice in line["advice"]


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (2, E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        (3, E.UNSUPPORTED_VERSION),
        (4, E.UNSUPPORTED_VERSION),
        (6, E.UNSUPPORTED_VERSION),
    ],
)
async def test_transactions_are_refused_in_words_that_clients_show(
    autojump_clock: MockClock, version: int, code: E
) -> None:
    async with neighboured(highest_version=TRANSACTIONS - 1) as scene:
        keys = {"coordinator_keys": ["t"]} if version >= 4 else {"key": "t"}
        request = fc.FindCoordinatorRequest(key_type=1, **keys)
        answer = await scene.offender.call("FindCoordinator", version, request)
        one = answer.coordinators[0] if version >= 4 else answer
        assert one.error_code == code
        assert "unset transactional.id" in one.error_message
        assert "processing.guarantee=at_least_once" in one.error_message


async def test_each_transactional_request_is_logged(autojump_clock: MockClock) -> None:
    async with neighboured(highest_version=TRANSACTIONS - 1) as scene:
        client = scene.offender
        asked = fc.FindCoordinatorRequest(key_type=1, coordinator_keys=["t"])
        await client.call("FindCoordinator", 4, asked)
        await client.call("InitProducerId", 5, ip.InitProducerIdRequest("t", 60_000))
        await client.produce(TOPIC, 0, records_batch(b"a"), transactional_id="t")
        said = f"transactions need {FEATURE_NAME} {TRANSACTIONS}"
        assert [each["what"] for each in scene.refused] == [said]
        await trio.sleep(SAY_AGAIN_SECONDS)
        await client.produce(TOPIC, 0, records_batch(b"a"), transactional_id="t")
        assert [each["times"] for each in scene.refused] == [1, 3]
