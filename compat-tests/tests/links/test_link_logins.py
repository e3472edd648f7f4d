"""A gateway mirrors from Apache Kafka, and logs in there with bearer tokens that expire every few
seconds, or with a delegation token; all over TLS.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import trio
from authentications.provider import Provider
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from harness import broker, install
from logins.brokers import SESSION_MS, Brokers, kafka, security
from logins.plan import PASSWORD
from migration.mirror import Mirror
from tls.certificates import Files, make_files

from tidegate_coordination.client.opened_source import opened_source
from tidegate_protocol.messages import create_delegation_token as cdt
from tidegate_protocol.messages import expire_delegation_token as edt

# A token is replaced when a fifth of its lifetime is left.  This is long enough for a login on a
# busy machine.
TOKEN_SECONDS: Final = 6.0
RENEWALS: Final = 3
PATIENCE_SECONDS: Final = 60.0
REFUSED: Final = "stranger"
_MODULES: Final = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def provider() -> Provider:
    return Provider(TOKEN_SECONDS, refused=REFUSED)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def url(provider: Provider) -> Iterator[str]:
    with provider.published() as found:
        yield found


@pytest.fixture(scope="module")
def source(files: Files, url: str) -> Iterator[Brokers]:
    """Apache Kafka.  A session ends with its token, and after five seconds at the latest."""
    mechanisms = "PLAIN,SCRAM-SHA-256,OAUTHBEARER"
    texts = security(files, url, ["linker"], mechanisms)
    texts["delegation.token.secret.key"] = "the key of these tests"
    try:
        install.kafka_jars()
    except install.MissingTool as error:
        pytest.skip(str(error))
    with kafka(texts, url) as found:
        yield found


class Client:
    """Files of client properties."""

    def __init__(self, folder: Path, files: Files, servers: str, url: str) -> None:
        self.folder = folder
        self.servers = servers
        self._files = files
        self._hmac = b""
        self._url = url

    def write(self, mechanism: str, module: str, options: str, *more: str) -> Path:
        """Return a file."""
        path = self.folder / f"{mechanism}.properties"
        lines = (
            "security.protocol=SASL_SSL",
            f"sasl.mechanism={mechanism}",
            f"ssl.truststore.location={self._files.ca}",
            f"sasl.jaas.config={_MODULES}.{module} required {options};",
            *more,
        )
        path.write_text("\n".join(lines) + "\n")
        return path

    def bearer(self, client_id: str) -> Path:
        """Return the file of a client of the provider."""
        endpoint = f"sasl.oauthbearer.token.endpoint.url={self._url}"
        options = f'clientId="{client_id}" clientSecret="{PASSWORD}" extension_tenant="a b"'
        module = "oauthbearer.OAuthBearerLoginModule"
        return self.write("OAUTHBEARER", module, options, endpoint)

    def delegation_token(self) -> Path:
        """Return a file of properties with a delegation token of the source."""
        new = cdt.CreateDelegationTokenRequest(max_lifetime_ms=-1)
        answer = self._ask_as_owner("CreateDelegationToken", new)
        self._hmac = answer.hmac
        secret = base64.b64encode(answer.hmac).decode()
        options = f'username="{answer.token_id}" password="{secret}" tokenauth="true"'
        return self.write("SCRAM-SHA-256", "scram.ScramLoginModule", options)

    def expire_token(self) -> None:
        """Expire the token now."""
        self._ask_as_owner(
            "ExpireDelegationToken", edt.ExpireDelegationTokenRequest(self._hmac, -1)
        )

    def _ask_as_owner(self, name: str, request: Any) -> Any:
        options = f'username="linker" password="{PASSWORD}"'
        owner = self.write("PLAIN", "plain.PlainLoginModule", options)

        async def ask() -> Any:
            async with opened_source(self.servers, owner) as cluster:
                return await cluster.call_any(name, request)

        answer = trio.run(ask)
        assert not answer.error_code, answer
        return answer


@pytest.fixture
def client(tmp_path: Path, files: Files, source: Brokers, url: str) -> Client:
    return Client(tmp_path, files, source.servers["SASL_SSL"], url)


def create(bootstrap: str, topic: str) -> None:
    admin: Any = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(PATIENCE_SECONDS)


def write(bootstrap: str, topic: str, is_enough: Callable[[], bool]) -> int:
    """Write to a topic until is_enough(); return the number of records."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    count, until = 0, time.monotonic() + PATIENCE_SECONDS
    while not is_enough() and time.monotonic() < until:
        producer.produce(topic, b"%d" % count)
        producer.poll(0.01)
        count += 1
    assert producer.flush(PATIENCE_SECONDS) == 0
    return count


@contextmanager
def mirroring(
    client: Client, file: Path, topic: str
) -> Generator[tuple[Mirror, broker.LocalBroker]]:
    """Run a gateway that mirrors a topic."""
    settings = {"link.client.properties": f"source={file}", "link.topics.interval.ms": "1000"}
    with broker.running("tidegate", settings) as gateway:
        assert isinstance(gateway, broker.LocalBroker)
        own = ("--client-properties", str(file))
        mirror = Mirror("--data", str(gateway.folder / "data"))
        servers = ("--bootstrap-servers", client.servers)
        mirror.command("link", "add", "source", *servers, "--topics", topic, *own)
        yield mirror, gateway


def assert_equal(mirror: Mirror, file: Path, records: int) -> None:
    """Wait until the copies have all records, then compare them."""
    own = ("--client-properties", str(file))
    until = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < until:
        status = mirror.command("link", "status", "source", *own, may_fail=True)
        copies = status.get("copies", ())
        if sum(each["records"] for each in copies) == records:
            break
        time.sleep(0.5)
    found = mirror.command("link", "verify", "source", "--records", *own)
    assert len(found) == 3, found
    assert [each for each in found if each["difference"]] == []


def test_bearer_tokens_are_renewed_while_a_link_mirrors(
    source: Brokers, client: Client, provider: Provider
) -> None:
    file = client.bearer("linker")
    create(source.plain, "bearer")
    with mirroring(client, file, "bearer") as (mirror, gateway):
        given, begun = provider.grants, time.monotonic()
        records = write(source.plain, "bearer", lambda: provider.grants >= given + RENEWALS)
        given, seconds = provider.grants - given, time.monotonic() - begun
        assert_equal(mirror, file, records)
        log = gateway.log.read_text()
    # All connections of the gateway's link use one token at a time.
    assert RENEWALS <= given <= RENEWALS + 2 * seconds / TOKEN_SECONDS
    assert "a link does not run" not in log, log
    assert PASSWORD not in log


def test_a_delegation_token_serves_a_link_over_many_sessions(
    source: Brokers, client: Client
) -> None:
    file = client.delegation_token()
    create(source.plain, "by-token")
    with mirroring(client, file, "by-token") as (mirror, gateway):
        records = write(source.plain, "by-token", after(2))
        assert "a link does not run" not in gateway.log.read_text()
        # A new token replaces the expired one.
        client.expire_token()
        records += write(source.plain, "by-token", after(1))
        assert client.delegation_token() == file
        records += write(source.plain, "by-token", after(1))
        assert_equal(mirror, file, records)
        assert "has changed: the link starts anew" in gateway.log.read_text()


def after(sessions: int) -> Callable[[], bool]:
    """Return a function that returns whether the time of `sessions` sessions has passed."""
    until = time.monotonic() + sessions * SESSION_MS / 1000
    return lambda: time.monotonic() > until


@pytest.fixture(scope="module")
def data() -> Iterator[Path]:
    """The data of a gateway without links."""
    with broker.running("tidegate") as gateway:
        assert isinstance(gateway, broker.LocalBroker)
        yield gateway.folder / "data"


def why_not(data: Path, client: Client, file: Path) -> str:
    """Return the reason why `link check` refuses these properties."""
    servers = ("--bootstrap-servers", client.servers, "--client-properties", str(file))
    found = Mirror("--data", str(data)).command("link", "check", *servers, may_fail=True)
    return str(found["reason"])


def test_what_the_provider_says_is_in_the_commands_answer(data: Path, client: Client) -> None:
    reason = why_not(data, client, client.bearer(REFUSED))
    said = "gives client stranger no token (HTTP 401, invalid_client: no such client): check"
    assert said in reason
    assert PASSWORD not in reason


def test_a_token_that_the_source_refuses_is_named(
    data: Path, client: Client, tmp_path: Path
) -> None:
    token = tmp_path / "token.jwt"
    token.write_text(Provider().token())  # whose keys the source does not know
    endpoint = f"sasl.oauthbearer.token.endpoint.url={token.as_uri()}"
    file = client.write("OAUTHBEARER", "oauthbearer.OAuthBearerLoginModule", "", endpoint)
    assert "the token is refused (invalid_token)" in why_not(data, client, file)
