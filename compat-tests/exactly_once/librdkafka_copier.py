"""Copies records in transactions with librdkafka, which speaks transaction.version 1.

The options and the lines are those of Kafka's TransactionalMessageCopier, but it runs until it is
ended.  It ends with status 1 after a fatal error, such as another process with its transactional
id.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

CALL_SECONDS = 60.0
POLL_SECONDS = 0.2
ABORTED_SHARE = 1 / 3


class Copier:
    """One copier; see the module's head."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._processed = 0
        servers = {"bootstrap.servers": options.broker_list, "error_cb": print_error}
        self._producer = Producer(
            {
                **servers,
                "transactional.id": options.transactional_id,
                "transaction.timeout.ms": options.transaction_timeout,
                "batch.num.messages": 5,  # so that a transaction has several requests
                "linger.ms": 1,
            }
        )
        self._consumer = Consumer(
            {
                **servers,
                "group.id": options.consumer_group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 10_000,
                "partition.assignment.strategy": "range",
            }
        )

    def run(self) -> None:
        """Copy for ever."""
        self._retried(lambda: self._producer.init_transactions(CALL_SECONDS))
        if self._options.group_mode:
            self._consumer.subscribe([self._options.input_topic])
        else:
            here = TopicPartition(self._options.input_topic, self._options.input_partition)
            self._consumer.assign([here])
        while True:
            self._say()
            messages = self._consumer.consume(self._options.transaction_size, POLL_SECONDS)
            records = [each for each in messages if each.error() is None]
            if records:
                self._copy(records)

    def _copy(self, records: Sequence[Message]) -> None:
        self._producer.begin_transaction()
        try:
            for each in records:
                self._send(each)
            self._send_offsets()
            if self._options.enable_random_aborts and random.random() < ABORTED_SHARE:
                self._abort()
                return
            self._retried(lambda: self._producer.commit_transaction(CALL_SECONDS))
        except KafkaException as failed:
            print_error(failed)
            if failed.args[0].fatal():
                raise
            self._abort()
        else:
            self._processed += len(records)

    def _send(self, record: Message) -> None:
        value, partition = record.value(), record.partition()
        assert value is not None
        assert partition is not None
        while True:
            try:
                self._producer.produce(self._options.output_topic, value, record.key(), partition)
                return
            except BufferError:
                self._producer.poll(0.1)

    def _send_offsets(self) -> None:
        positions = self._consumer.position(self._consumer.assignment())
        known = [each for each in positions if each.offset >= 0]
        group = self._consumer.consumer_group_metadata()
        send = self._producer.send_offsets_to_transaction
        self._retried(lambda: send(known, group, CALL_SECONDS))

    def _abort(self) -> None:
        """Abort, and go back to the committed offsets."""
        self._retried(lambda: self._producer.abort_transaction(CALL_SECONDS))
        asked = self._consumer.assignment()
        if not asked:
            return
        for each in self._retried(lambda: self._consumer.committed(asked, CALL_SECONDS)):
            self._consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))

    def _retried(self, call: Callable[[], Any]) -> Any:
        """Repeat a call as long as it fails with a retriable error."""
        while True:
            try:
                return call()
            except KafkaException as failed:
                print_error(failed)
                if not failed.args[0].retriable():
                    raise

    def _say(self) -> None:
        line = {"stage": "ProcessLoop", "totalProcessed": self._processed}
        print(json.dumps(line), flush=True)


def print_error(error: object) -> None:
    """Print an error to standard error.  It may only say that a gateway is down."""
    print(repr(error), file=sys.stderr, flush=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser()
    for name in ("broker-list", "input-topic", "output-topic", "consumer-group"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--transactional-id", required=True)
    for name in ("input-partition", "transaction-size", "transaction-timeout"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("group-mode", "enable-random-aborts", "use-group-metadata"):
        parser.add_argument(f"--{name}", action="store_true")
    Copier(parser.parse_args()).run()


if __name__ == "__main__":
    main()
