"""The load of librdkafka: python logins/librdkafka_client.py FILE (see plan.py)."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from confluent_kafka import Consumer, KafkaError, Message, Producer

from logins.load import Production, number_of, say, token, until_told, value
from logins.plan import MTLS, Login, Plan, protocol_of, read

FLUSH_SECONDS = 60
LOST = "Broker transport failure"


def settings(plan: Plan, login: Login) -> dict[str, Any]:
    """Return the settings of all clients of a login."""

    def told(error: KafkaError) -> None:
        # The error of a lost connection, also during its login; librdkafka opens another one.
        is_lost = error.code() == KafkaError._TRANSPORT or LOST in error.str()
        say("W" if is_lost and not error.fatal() else "E", login, error.name(), error.str())

    found: dict[str, Any] = {
        "bootstrap.servers": plan.addresses(login),
        "security.protocol": protocol_of(login.mechanism),
        "ssl.ca.location": plan.ca,
        "topic.metadata.refresh.interval.ms": 5000,
        "error_cb": told,
        "log_level": 0,
    }
    if login.mechanism == MTLS:
        return found | {
            "ssl.certificate.location": login.certificate,
            "ssl.key.location": login.certificate,
        }
    if login.mechanism == "OAUTHBEARER":
        found["oauth_cb"] = lambda _config: token(plan, login.user)
    else:
        found |= {"sasl.username": login.user, "sasl.password": login.password}
    return found | {"sasl.mechanism": login.mechanism}


def produce(plan: Plan, login: Login, stop: threading.Event) -> None:
    """Start the producer."""
    producer = Producer({**settings(plan, login), "enable.idempotence": True, "linger.ms": 5})

    def send(number: int, partition: int) -> None:
        def told(error: KafkaError | None, message: Message) -> None:
            if error is None:
                say("A", login, partition, message.offset(), number)
            else:
                say("F", login, partition, number, error.name())

        producer.produce(login.topic, value(login, number), partition=partition, on_delivery=told)

    def flush() -> bool:
        return producer.flush(FLUSH_SECONDS) == 0

    Production(plan, login, stop, send, lambda: producer.poll(0), flush).start()


def consume(plan: Plan, login: Login, stop: threading.Event) -> None:
    """Work as a group member."""
    more = {"group.id": login.topic, "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings(plan, login), **more, "auto.commit.interval.ms": 1000})
    consumer.subscribe([login.topic])
    while not stop.is_set():
        message = consumer.poll(0.1)
        if message is None:
            continue
        error = message.error()
        if error is not None:
            say("E", login, error.name())
            continue
        words = f"{message.offset()}:{number_of(message.value())}"
        say("C", login, message.partition(), words)
    consumer.close()


def main() -> None:
    """Run the command line."""
    plan = read(sys.argv[1])
    stop_producing, stop_consuming = threading.Event(), threading.Event()
    consumers = [
        threading.Thread(target=consume, args=(plan, login, stop_consuming))
        for login in plan.logins
    ]
    for login in plan.logins:
        produce(plan, login, stop_producing)
    for each in consumers:
        each.start()
    until_told(stop_producing.set)
    stop_consuming.set()
    for each in consumers:
        each.join()


if __name__ == "__main__":
    main()
