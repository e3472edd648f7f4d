"""Produces and consumes by kafka-python over TLS, in another process, since its import warns.

python kafka_python_client.py BOOTSTRAP CA_FILE CLIENT_FILE COUNT
"""

from __future__ import annotations

import sys

from kafka import KafkaConsumer, KafkaProducer

TOPIC = "kafka-python"
PATIENCE_SECONDS = 120


def main(bootstrap: str, ca_file: str, client_file: str, count: int) -> None:
    """Write records, and print how many are read."""
    settings = {
        "bootstrap_servers": bootstrap,
        "security_protocol": "SSL",
        "ssl_cafile": ca_file,
        "ssl_certfile": client_file,
        "ssl_keyfile": client_file,
    }
    producer = KafkaProducer(**settings, linger_ms=20)
    for number in range(count):
        producer.send(TOPIC, f"{number}".encode())
    producer.flush(PATIENCE_SECONDS)
    producer.close()
    consumer = KafkaConsumer(
        TOPIC,
        **settings,
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_SECONDS * 1000,
    )
    print(len([next(consumer) for _ in range(count)]))
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
