"""The load of aiokafka: python logins/aiokafka_client.py FILE (see plan.py)."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError
from aiokafka.helpers import create_ssl_context

from logins.load import TICK_SECONDS, Due, number_of, say, short, token, until_told, value
from logins.plan import MTLS, Login, Plan, protocol_of, read


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, plan: Plan, user: str) -> None:
        self._plan, self._user = plan, user

    async def token(self) -> str:
        return (await asyncio.to_thread(token, self._plan, self._user))[0]


def settings(plan: Plan, login: Login) -> dict[str, Any]:
    """Return the settings of all clients of a login."""
    own = {"certfile": login.certificate} if login.mechanism == MTLS else {}
    found: dict[str, Any] = {
        "bootstrap_servers": plan.addresses(login),
        "security_protocol": protocol_of(login.mechanism),
        "ssl_context": create_ssl_context(cafile=plan.ca, **own),
        "metadata_max_age_ms": 5000,
    }
    if login.mechanism == MTLS:
        return found
    found["sasl_mechanism"] = login.mechanism
    if login.mechanism == "OAUTHBEARER":
        return found | {"sasl_oauth_token_provider": _Tokens(plan, login.user)}
    return found | {"sasl_plain_username": login.user, "sasl_plain_password": login.password}


async def produce(plan: Plan, login: Login, stop: asyncio.Event) -> None:
    """Send until `stop` is set."""
    due = Due(plan.rate)
    answers: set[asyncio.Task[None]] = set()
    async with AIOKafkaProducer(**settings(plan, login), enable_idempotence=True) as producer:
        while not stop.is_set():
            await asyncio.sleep(TICK_SECONDS)
            for number in due.numbers():
                partition = number % plan.partitions
                sent = await producer.send(login.topic, value(login, number), partition=partition)
                answer = asyncio.create_task(_answer(login, number, partition, sent))
                answers.add(answer)
                answer.add_done_callback(answers.discard)
        await producer.flush()
        await asyncio.gather(*answers)
    say("D", login)


async def _answer(login: Login, number: int, partition: int, sent: asyncio.Future[Any]) -> None:
    try:
        told = await sent
    except KafkaError as error:
        say("F", login, partition, number, short(error))
    else:
        say("A", login, told.partition, told.offset, number)


async def consume(plan: Plan, login: Login, stop: asyncio.Event) -> None:
    """Work as a group member."""
    more = {"group_id": login.topic, "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer(
        login.topic, **settings(plan, login), **more, auto_commit_interval_ms=1000
    ) as consumer:
        while not stop.is_set():
            try:
                polled = await consumer.getmany(timeout_ms=200)
            except KafkaError as error:
                say("E", login, short(error))
                continue
            for place, records in polled.items():
                words = [f"{each.offset}:{number_of(each.value)}" for each in records]
                say("C", login, place.partition, *words)


async def main() -> None:
    """Run the command line."""
    plan = read(sys.argv[1])
    logging.getLogger("aiokafka").setLevel(logging.WARNING)
    loop = asyncio.get_running_loop()
    stop_producing, stop_consuming = asyncio.Event(), asyncio.Event()

    def stop_producers() -> None:
        loop.call_soon_threadsafe(stop_producing.set)

    async with asyncio.TaskGroup() as tasks:
        for login in plan.logins:
            tasks.create_task(produce(plan, login, stop_producing))
            tasks.create_task(consume(plan, login, stop_consuming))
        await asyncio.to_thread(until_told, stop_producers)
        stop_consuming.set()


if __name__ == "__main__":
    asyncio.run(main())
