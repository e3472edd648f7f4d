"""The load of kafka-python: python logins/kafka_python_client.py FILE (see plan.py)."""

from __future__ import annotations

import sys
import threading
import warnings
from functools import partial
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from kafka import KafkaConsumer, KafkaProducer
    from kafka.net.sasl.oauth import AbstractTokenProvider

from logins.load import Production, number_of, say, short, token, until_told, value
from logins.plan import MTLS, Login, Plan, protocol_of, read

FLUSH_SECONDS = 60
CLOSE_SECONDS = 10
# Longer than any rebalance: see drivers/kafka_python.py.
POLL_MS = 3000


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, plan: Plan, user: str) -> None:
        super().__init__()
        self._plan, self._user = plan, user

    def token(self) -> str:
        return token(self._plan, self._user)[0]


def settings(plan: Plan, login: Login) -> dict[str, Any]:
    """Return the settings of all clients of a login."""
    found: dict[str, Any] = {
        "bootstrap_servers": plan.addresses(login).split(","),
        "security_protocol": protocol_of(login.mechanism),
        "ssl_cafile": plan.ca,
        "metadata_max_age_ms": 5000,
    }
    if login.mechanism == MTLS:
        return found | {"ssl_certfile": login.certificate, "ssl_keyfile": login.certificate}
    found["sasl_mechanism"] = login.mechanism
    if login.mechanism == "OAUTHBEARER":
        return found | {"sasl_oauth_token_provider": _Tokens(plan, login.user)}
    return found | {"sasl_plain_username": login.user, "sasl_plain_password": login.password}


def produce(plan: Plan, login: Login, stop: threading.Event) -> None:
    """Start the producer."""
    producer = KafkaProducer(**settings(plan, login), enable_idempotence=True, acks="all")

    def told(number: int, sent: Any) -> None:
        say("A", login, sent.partition, sent.offset, number)

    def failed(number: int, partition: int, error: BaseException) -> None:
        say("F", login, partition, number, short(error))

    def send(number: int, partition: int) -> None:
        future = producer.send(login.topic, value(login, number), partition=partition)
        future.add_callback(partial(told, number))
        future.add_errback(partial(failed, number, partition))

    def flush() -> bool:
        producer.flush(FLUSH_SECONDS)
        return True

    Production(plan, login, stop, send, lambda: None, flush).start()


def consume(plan: Plan, login: Login, stop: threading.Event) -> None:
    """Work as a group member."""
    consumer = KafkaConsumer(
        login.topic,
        **settings(plan, login),
        group_id=login.topic,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=1000,
    )
    while not stop.is_set():
        try:
            polled = consumer.poll(timeout_ms=POLL_MS)
        except Exception as error:
            say("E", login, short(error))
            continue
        for place, records in polled.items():
            words = [f"{each.offset}:{number_of(each.value)}" for each in records]
            say("C", login, place.partition, *words)
    consumer.close()


def main() -> None:
    """Run the command line."""
    plan = read(sys.argv[1])
    stop_producing, stop_consuming = threading.Event(), threading.Event()
    consumers = [
        threading.Thread(target=consume, args=(plan, login, stop_consuming), daemon=True)
        for login in plan.logins
    ]
    for login in plan.logins:
        produce(plan, login, stop_producing)
    for each in consumers:
        each.start()
    until_told(stop_producing.set)
    stop_consuming.set()
    for each in consumers:
        each.join(CLOSE_SECONDS)


if __name__ == "__main__":
    main()
