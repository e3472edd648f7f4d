"""Calls to the brokers of a classic cluster: which are repeated, and at which broker."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from tests.client.test_classic_cluster import (
    answered_by,
    clustered,
    code_of,
    list_offsets,
    listed,
    produced,
)
from tests.worlds.scripted_broker import PROPERTIES, Asked, HangUp
from tidegate_coordination.client.errors import Disconnected, Kind, Refused
from tidegate_protocol.error_codes import ErrorCode as E
from tidegate_protocol.messages import create_topics as ct
from tidegate_protocol.messages import describe_configs as dc
from tidegate_protocol.messages import list_offsets as lo
from tidegate_protocol.messages import produce as pr

# -- calls ----------------------------------------------------------------------------------------


async def test_a_read_follows_a_leader_that_moved(autojump_clock: MockClock) -> None:
    async with clustered() as (brokers, cluster):
        await cluster.refresh()

        def moved(asked: Asked) -> lo.ListOffsetsResponse:
            brokers.leaders["orders"][0], brokers.epochs["orders"] = 3, 1
            return listed(E.NOT_LEADER_OR_FOLLOWER)

        brokers.brokers[1].answers["ListOffsets"] = moved
        brokers.brokers[3].answers["ListOffsets"] = lambda _: listed()
        answer = await cluster.call_leader("orders", 0, "ListOffsets", list_offsets())
        assert code_of(answer) == 0
        assert answered_by(brokers, "ListOffsets") == [1, 3]


async def test_a_read_that_stays_refused_returns_its_last_response(
    autojump_clock: MockClock,
) -> None:
    async with clustered() as (brokers, cluster):
        brokers.brokers[1].answers["ListOffsets"] = lambda _: listed(E.OFFSET_NOT_AVAILABLE)
        answer = await cluster.call_leader("orders", 0, "ListOffsets", list_offsets())
        assert code_of(answer) == E.OFFSET_NOT_AVAILABLE
        assert 58 < trio.current_time() <= 60


async def test_a_read_that_is_not_allowed_is_asked_once(autojump_clock: MockClock) -> None:
    async with clustered() as (brokers, cluster):
        refused = E.TOPIC_AUTHORIZATION_FAILED
        brokers.brokers[1].answers["ListOffsets"] = lambda _: listed(refused)
        answer = await cluster.call_leader("orders", 0, "ListOffsets", list_offsets())
        assert code_of(answer) == refused
        assert answered_by(brokers, "ListOffsets") == [1]


async def test_a_read_of_unknown_outcome_is_repeated(autojump_clock: MockClock) -> None:
    async with clustered() as (brokers, cluster):

        def once(asked: Asked) -> lo.ListOffsetsResponse:
            if asked.connection == 1:
                raise HangUp
            return listed()

        brokers.brokers[2].answers["ListOffsets"] = once
        answer = await cluster.call_leader("orders", 1, "ListOffsets", list_offsets(1))
        assert code_of(answer) == 0
        assert brokers.brokers[2].connections == 2


def produce() -> pr.ProduceRequest:
    return pr.ProduceRequest(None, -1, 1000, [])


async def test_a_produce_of_unknown_outcome_is_not_repeated(autojump_clock: MockClock) -> None:
    def hang_up(asked: Asked) -> None:
        raise HangUp

    async with clustered() as (brokers, cluster):
        brokers.brokers[2].answers["Produce"] = hang_up
        with pytest.raises(Disconnected, match="the outcome of Produce is unknown"):
            await cluster.call_leader("orders", 1, "Produce", produce())
        assert answered_by(brokers, "Produce") == [2]


async def test_a_lost_answer_to_metadata_does_not_end_a_produce(
    autojump_clock: MockClock,
) -> None:
    def hang_up_once(asked: Asked) -> Any:
        if asked.connection == 1:
            raise HangUp
        return brokers.metadata(asked)

    async with clustered(PROPERTIES) as (brokers, cluster):
        brokers.brokers[1].answers["Metadata"] = hang_up_once
        brokers.brokers[2].answers["Produce"] = lambda _: produced()
        await cluster.call_leader("orders", 1, "Produce", produce())
        assert answered_by(brokers, "Produce") == [2]


async def test_a_produce_that_was_refused_is_not_repeated_but_metadata_is_fetched(
    autojump_clock: MockClock,
) -> None:
    async with clustered() as (brokers, cluster):
        await cluster.refresh()

        def moved(asked: Asked) -> pr.ProduceResponse:
            brokers.leaders["orders"][1], brokers.epochs["orders"] = 3, 1
            return produced(E.NOT_LEADER_OR_FOLLOWER)

        brokers.brokers[2].answers["Produce"] = moved
        answer = await cluster.call_leader("orders", 1, "Produce", produce())
        code = answer.responses[0].partition_responses[0].error_code
        assert code == E.NOT_LEADER_OR_FOLLOWER
        assert answered_by(brokers, "Produce") == [2]
        assert cluster.metadata.topics["orders"].partitions[1].leader_id == 3


async def test_a_produce_that_was_not_sent_is_tried_again(autojump_clock: MockClock) -> None:
    async with clustered() as (brokers, cluster), trio.open_nursery() as nursery:
        await cluster.refresh()
        brokers.brokers[2].is_up = False
        brokers.brokers[2].answers["Produce"] = lambda _: produced()

        async def start() -> None:
            await trio.sleep(5)
            brokers.brokers[2].is_up = True

        nursery.start_soon(start)
        await cluster.call_leader("orders", 1, "Produce", produce())
        assert answered_by(brokers, "Produce") == [2]


async def test_a_partition_without_a_leader_is_waited_for(autojump_clock: MockClock) -> None:
    async with clustered() as (brokers, cluster), trio.open_nursery() as nursery:
        brokers.leaders["orders"][1] = -1
        brokers.brokers[3].answers["ListOffsets"] = lambda _: listed()

        async def elect() -> None:
            await trio.sleep(5)
            brokers.leaders["orders"][1], brokers.epochs["orders"] = 3, 1

        nursery.start_soon(elect)
        await cluster.call_leader("orders", 1, "ListOffsets", list_offsets(1))
        assert 5 <= trio.current_time() < 7


@pytest.mark.parametrize(("topic", "partition"), [("missing", 0), ("orders", 17)])
async def test_a_partition_that_does_not_exist_is_refused(
    topic: str, partition: int, autojump_clock: MockClock
) -> None:
    async with clustered() as (_, cluster):
        with pytest.raises(Refused, match=f"{topic}-{partition}: UNKNOWN_TOPIC") as caught:
            await cluster.call_leader(topic, partition, "ListOffsets", list_offsets())
        assert caught.value.kind is Kind.RETRIABLE


async def test_the_controller_is_found_again_after_it_moved(autojump_clock: MockClock) -> None:
    created = ct.CreateTopicsResponse(topics=[ct.CreatableTopicResult("new")])
    moved = ct.CreateTopicsResponse(topics=[ct.CreatableTopicResult("new", error_code=41)])

    def move(asked: Asked) -> ct.CreateTopicsResponse:
        brokers.controller_id = 3
        return moved

    async with clustered() as (brokers, cluster):
        brokers.brokers[2].answers["CreateTopics"] = move
        brokers.brokers[3].answers["CreateTopics"] = lambda _: created
        request = ct.CreateTopicsRequest([], 1000)
        assert await cluster.call_controller("CreateTopics", request) == created
        assert answered_by(brokers, "CreateTopics") == [2, 3]


async def test_a_call_reaches_the_broker_that_was_asked_for(autojump_clock: MockClock) -> None:
    async with clustered() as (brokers, cluster):
        brokers.brokers[3].answers["DescribeConfigs"] = lambda _: dc.DescribeConfigsResponse()
        await cluster.call_broker(3, "DescribeConfigs", dc.DescribeConfigsRequest())
        assert answered_by(brokers, "DescribeConfigs") == [3]


@pytest.mark.parametrize("seed", range(5))
async def test_any_broker_answers_while_one_is_up(seed: int, autojump_clock: MockClock) -> None:
    async with clustered(seed=seed) as (brokers, cluster):
        for number, each in brokers.brokers.items():
            each.answers["DescribeConfigs"] = lambda _: dc.DescribeConfigsResponse()
            each.is_up = number == 1
        await cluster.call_any("DescribeConfigs", dc.DescribeConfigsRequest())
        assert answered_by(brokers, "DescribeConfigs") == [1]
