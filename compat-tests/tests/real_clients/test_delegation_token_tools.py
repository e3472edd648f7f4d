"""kafka-delegation-tokens.sh makes tokens at a gateway, and Java clients log in by them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from delegation_tokens.broker import LOGIN, OPEN, SECRET_KEY, settings
from harness import install
from harness.broker import running
from harness.java_tools.script import TOOLS
from harness.process import free_ports
from harness.toolbox import Printed, Toolbox, call_alone
from logins.audits import Logins

TOOL: Final = "org.apache.kafka.tools.DelegationTokenCommand"
SESSION_MS: Final = 2_000
_MODULES: Final = "org.apache.kafka.common.security"


RIGHTS: Final = (
    "--allow-principal User:alice --operation All --topic * --group * --cluster",
    "--allow-principal User:bob --operation CreateTokens --user-principal User:alice",
)


@pytest.fixture(scope="module")
def box() -> Iterator[Toolbox]:
    with Toolbox() as found:
        yield found


@pytest.fixture(scope="module")
def audit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The audit log of the gateway."""
    return tmp_path_factory.mktemp("gateway") / "audit.log"


@pytest.fixture(scope="module")
def servers(box: Toolbox, audit: Path) -> Iterator[str]:
    """The SASL listener of a gateway; alice may use all topics, and bob create tokens for her."""
    try:
        install.kafka_jars()
    except install.MissingTool as error:
        pytest.skip(str(error))
    (port,) = free_ports(1)
    more = {
        "listeners": f"{LOGIN}://127.0.0.1:{port}",
        "listener.security.protocol.map": f"{OPEN}:PLAINTEXT,{LOGIN}:SASL_PLAINTEXT",
        f"listener.name.{LOGIN.lower()}.connections.max.reauth.ms": str(SESSION_MS),
        "audit.log.file": str(audit),
    }
    with running("tidegate", settings(has_key=True) | more) as broker:
        for right in RIGHTS:
            words = ["--bootstrap-server", broker.bootstrap, "--add", *right.split()]
            assert box.call(TOOLS["acls"], words).status == 0
        yield f"127.0.0.1:{port}"


class Client:
    """A user of the tools, with its settings in a file."""

    def __init__(self, servers: str, folder: Path, name: str, login: str, mechanism: str) -> None:
        self.place = ["--bootstrap-server", servers]
        self.file = folder / f"{name}.properties"
        self.file.write_text(
            f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism={mechanism}\n"
            f"sasl.jaas.config={login}\n"
        )

    @property
    def words(self) -> list[str]:
        return [*self.place, "--command-config", str(self.file)]


def user(servers: str, folder: Path, name: str) -> Client:
    login = f'{_MODULES}.plain.PlainLoginModule required username="{name}" password="{name}";'
    return Client(servers, folder, name, login, "PLAIN")


def bearer(
    servers: str, folder: Path, row: list[str], mechanism: str = "SCRAM-SHA-256", tail: str = ""
) -> Client:
    login = (
        f'{_MODULES}.scram.ScramLoginModule required username="{row[0]}"'
        f' password="{row[1]}{tail}" tokenauth="true";'
    )
    return Client(servers, folder, f"token{tail}", login, mechanism)


def logins_of(audit: Path) -> Logins:
    """Return the logins in the audit log so far."""
    found = Logins()
    found.add(audit.read_text().splitlines())
    return found


def rows_of(printed: Printed) -> list[list[str]]:
    """Return the rows of tokens: id, secret, owner, requester, renewers, and three times."""
    assert printed.status == 0, printed
    lines = printed.stdout.splitlines()
    [head] = [at for at, line in enumerate(lines) if line.startswith("TOKENID")]
    return [line.split() for line in lines[head + 1 :] if line.strip()]


def test_the_tool_makes_shows_renews_and_removes_tokens(
    servers: str, box: Toolbox, tmp_path: Path
) -> None:
    alice, bob = user(servers, tmp_path, "alice"), user(servers, tmp_path, "bob")
    ivan = user(servers, tmp_path, "ivan")
    new = ["--create", "--max-life-time-period", "-1", "--renewer-principal", "User:carol"]
    [row] = rows_of(box.call(TOOL, [*alice.words, *new]))
    assert row[2:5] == ["User:alice", "User:alice", "[User:carol]"]
    for_alice = ["--create", "--max-life-time-period", "3600000", "--owner-principal", "User:alice"]
    [other] = rows_of(box.call(TOOL, [*bob.words, *for_alice]))
    assert other[2:4] == ["User:alice", "User:bob"]
    refused = box.call(TOOL, [*ivan.words, *for_alice])
    assert refused.status == 1
    assert "DelegationTokenAuthorizationException" in refused.stdout + refused.stderr
    # Without an owner the tool asks for the tokens of no user.
    assert rows_of(box.call(TOOL, [*alice.words, "--describe"])) == []
    owned = ["--describe", "--owner-principal", "User:alice"]
    shown = rows_of(box.call(TOOL, [*alice.words, *owned]))
    assert sorted(each[:2] for each in shown) == sorted([row[:2], other[:2]])
    assert [each[0] for each in rows_of(box.call(TOOL, [*bob.words, *owned]))] == [other[0]]
    renewal = ["--renew", "--renew-time-period", "60000", "--hmac", row[1]]
    assert box.call(TOOL, [*user(servers, tmp_path, "carol").words, *renewal]).status == 0
    assert box.call(TOOL, [*ivan.words, *renewal]).status == 1
    removal = ["--expire", "--expiry-time-period", "-1", "--hmac"]
    for each in (row, other):
        assert box.call(TOOL, [*alice.words, *removal, each[1]]).status == 0
    assert rows_of(box.call(TOOL, [*alice.words, *owned])) == []
    assert SECRET_KEY not in refused.stdout + refused.stderr


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_java_clients_log_in_by_a_token(
    servers: str, box: Toolbox, tmp_path: Path, mechanism: str
) -> None:
    owner = user(servers, tmp_path, "alice")
    new = ["--create", "--max-life-time-period", "-1"]
    [row] = rows_of(box.call(TOOL, [*owner.words, *new]))
    client = bearer(servers, tmp_path, row, mechanism)
    topic = ["--topic", f"by-token-{mechanism.lower()}"]
    sent = "one\ntwo\nthree\n"
    printed = box.call(TOOLS["console-producer"], [*client.words, *topic], stdin=sent)
    assert printed.status == 0, printed
    reading = ["--from-beginning", "--max-messages", "3", "--timeout-ms", "20000"]
    printed = box.call(TOOLS["console-consumer"], [*client.words, *topic, *reading])
    assert printed.stdout.split() == sent.split(), printed
    refused = box.call(TOOL, [*client.words, *new])
    assert "DelegationTokenDisabled" not in refused.stdout + refused.stderr
    assert refused.status == 1
    assert "Delegation Token requests are not allowed" in refused.stdout + refused.stderr


def test_a_java_producer_authenticates_again_by_its_token(
    servers: str, box: Toolbox, audit: Path, tmp_path: Path
) -> None:
    before = logins_of(audit).again["alice"]
    owner = user(servers, tmp_path, "alice")
    [row] = rows_of(box.call(TOOL, [*owner.words, "--create", "--max-life-time-period", "-1"]))
    client = bearer(servers, tmp_path, row)
    # The load lasts three sessions.
    load = ["--topic", "again", "--max-messages", "120", "--throughput", "20"]
    printed = call_alone(TOOLS["verifiable-producer"], [*client.words, *load], seconds=60)
    assert printed.stdout.count('"producer_send_success"') == 120, printed
    assert logins_of(audit).again["alice"] > before


def test_a_wrong_secret_is_refused(servers: str, box: Toolbox, tmp_path: Path) -> None:
    owner = user(servers, tmp_path, "alice")
    [row] = rows_of(box.call(TOOL, [*owner.words, "--create", "--max-life-time-period", "-1"]))
    stranger = bearer(servers, tmp_path, row, tail="x")
    printed = box.call(TOOLS["topics"], [*stranger.words, "--list"])
    assert printed.status == 1
    assert "Authentication failed" in printed.stdout + printed.stderr
