"""Records what Apache Kafka answers to every case: compat-tests/expected/authentications.json.

compat-tests/run authentications-record
"""

from __future__ import annotations

import json
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialAlteration,
    UserScramCredentialUpsertion,
)
from harness.broker import running
from harness.places import KAFKA_VERSION, WORK
from harness.process import free_ports
from runner.result import Result
from runner.shared import NoOptions

from authentications.cases import (
    DELAY_MS,
    LISTENERS,
    OPEN,
    cases,
    settings,
)
from authentications.frames import Case
from authentications.scram import ITERATIONS, SALT, USERS
from authentications.seen import CLOSED, seen
from authentications.tokens import published_keys

GOLDEN: Final = Path(__file__).parents[1] / "expected" / "authentications.json"
PATIENCE_SECONDS: Final = 10.0
CLOSE_SECONDS: Final = 0.7
AT_ONCE: Final = 24
ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


def main(options: NoOptions) -> Result:
    """Play all cases, and write the file."""
    logins = [each for each in LISTENERS if each != OPEN]
    ports = dict(zip(logins, free_ports(len(logins)), strict=True))
    protocols = [f"{each}:SASL_PLAINTEXT" for each in logins]
    keys = WORK / "published-keys.json"
    keys.write_bytes(published_keys())
    # Kafka reads keys only from URLs that a property of its JVM allows.
    os.environ["JDK_JAVA_OPTIONS"] = f"-D{ALLOWED_URLS}={keys.as_uri()}"
    extra = settings(keys.as_uri()) | {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "listener.security.protocol.map": ",".join(
            ["PLAINTEXT:PLAINTEXT", "CONTROLLER:PLAINTEXT", *protocols]
        ),
    }
    with running("kafka", extra) as broker:
        add_users(broker.bootstrap)
        ports[OPEN] = int(broker.bootstrap.split(":")[1])
        with ThreadPoolExecutor(AT_ONCE) as pool:
            listed = cases()
            found = pool.map(lambda case: play(case, ports[case.listener]), listed)
            facts = {case.name: each for case, each in zip(listed, found, strict=True)}
    lines = (f"  {json.dumps(name)}: {json.dumps(each)}" for name, each in facts.items())
    head = f'  "kafka": "{KAFKA_VERSION}"'
    GOLDEN.write_text("{\n" + ",\n".join([head, *lines]) + "\n}\n")
    return Result(is_good=True)


def add_users(bootstrap: str) -> None:
    """Give every user its SCRAM credentials."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
        info = ScramCredentialInfo(mechanism, ITERATIONS)
        changes: list[UserScramCredentialAlteration] = [
            UserScramCredentialUpsertion(name, info, password.encode(), SALT)
            for name, password in USERS.items()
        ]
        for done in admin.alter_user_scram_credentials(changes).values():
            done.result(PATIENCE_SECONDS)


def play(case: Case, port: int) -> list[list[Any]]:
    """Return the facts of each answer, up to the broker's close."""
    facts: list[list[Any]] = []
    answers: list[bytes] = []
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as connection:
        for step in case.steps:
            time.sleep(step.pause_ms / 1000)
            data = step.data if isinstance(step.data, bytes) else step.data(answers)
            facts.append(_step(connection, data, step.api, answers))
            if facts[-1][0] == CLOSED:
                return facts
        if _is_closed(connection):
            facts.append([CLOSED])
    return facts


def _step(
    connection: socket.socket, data: bytes, api: tuple[int, int] | None, answers: list[bytes]
) -> list[Any]:
    begun = time.monotonic()
    with suppress(ConnectionError):
        connection.sendall(data)
    try:
        answer = _receive(connection)
    except TimeoutError:
        return ["silence"]
    late = time.monotonic() - begun > 0.8 * DELAY_MS / 1000
    if answer is not None:
        answers.append(answer)
    return seen(answer, api, late=late)


def _receive(connection: socket.socket) -> bytes | None:
    head = _exactly(connection, 4)
    return None if head is None else _exactly(connection, int.from_bytes(head, "big"))


def _exactly(connection: socket.socket, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        try:
            more = connection.recv(size - len(data))
        except ConnectionError:
            return None
        if not more:
            return None
        data += more
    return data


def _is_closed(connection: socket.socket) -> bool:
    """Return whether the broker closed after its last answer."""
    connection.settimeout(CLOSE_SECONDS)
    try:
        return connection.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True
