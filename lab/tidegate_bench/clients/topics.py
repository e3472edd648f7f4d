"""Topics of a run, by librdkafka's admin client."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, cast

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from ..errors import BenchError

SECONDS = 15.0


def create(bootstrap: str, name: str, partitions: int, settings: Mapping[str, str]) -> None:
    """Make a topic with one replica.

    Raises:
      BenchError: the broker does not answer, or refuses.
    """
    topic = NewTopic(name, partitions, 1, config=dict(settings))
    admin = _admin(bootstrap)  # must outlive its answers
    try:
        for done in _futures(admin.create_topics, topic):
            done.result(SECONDS)
    except (KafkaException, TimeoutError) as error:
        raise BenchError(f"{bootstrap} did not create a topic: {error or 'no answer'}") from error


def delete(bootstrap: str, name: str) -> None:
    """Delete a topic; ignore a missing one."""
    admin = _admin(bootstrap)
    for done in _futures(admin.delete_topics, name):
        done.exception(SECONDS)


def _admin(bootstrap: str) -> Any:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def _futures(ask: Callable[[list[Any]], Any], of: object) -> list[Future[None]]:
    return list(cast(Mapping[str, Future[None]], ask([of])).values())
