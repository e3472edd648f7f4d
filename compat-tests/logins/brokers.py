"""The brokers that the clients log in at: gateways of one cluster, or Apache Kafka."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from authentications.provider import AUDIENCE, ISSUER
from faults.world import Gateway
from harness.broker import running
from harness.process import free_ports
from tls.certificates import Files

from logins.audits import Logins
from logins.plan import MTLS, PASSWORD

GATEWAYS: Final = 3
SESSION_MS: Final = 5000
_MODULES: Final = "org.apache.kafka.common.security"
_PLAIN_MODULE: Final = f"{_MODULES}.plain.PlainLoginModule"
_JAVA_OPTIONS: Final = "JDK_JAVA_OPTIONS"
_ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


@dataclass(slots=True)
class Brokers:
    """Running brokers.

    plain: the addresses of the listener without logins.  servers: by security protocol, the
    addresses of the other listeners.  reload: makes the brokers read their certificates again;
    None: they cannot.
    """

    plain: str
    servers: Mapping[str, str]
    reload: Callable[[], None] | None = None
    logs: list[Path] = field(default_factory=list)
    audits: list[Path] = field(default_factory=list)

    def logins(self) -> Logins:
        """Return the logins in the audit logs so far."""
        found = Logins()
        for each in self.audits:
            found.add(each.read_text().splitlines())
        return found

    def reloads(self) -> int:
        """Return how often the brokers, together, took new certificates."""
        return sum(each.read_text().count("new certificates are in use") for each in self.logs)


def security(files: Files, keys_url: str, plain: Iterable[str], mechanisms: str) -> dict[str, str]:
    """Return the settings of both kinds of broker.  plain: users of PLAIN."""
    listener = "listener.name.sasl_ssl"
    users = " ".join(f'user_{name}="{PASSWORD}"' for name in plain)
    oauth = f"{listener}.oauthbearer.sasl.oauthbearer"
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.ca),
        "listener.name.ssl.ssl.client.auth": "required",
        "connections.max.reauth.ms": str(SESSION_MS),
        f"{listener}.sasl.enabled.mechanisms": mechanisms,
        f"{listener}.plain.sasl.jaas.config": f"{_PLAIN_MODULE} required {users};",
        f"{oauth}.jwks.endpoint.url": keys_url,
        f"{oauth}.expected.issuer": ISSUER,
        f"{oauth}.expected.audience": AUDIENCE,
    }


@contextmanager
def gateways(folder: Path, texts: Mapping[str, str]) -> Generator[Brokers]:
    """Run three gateways over SQLite and files.  texts: from security()."""
    token = secrets.token_hex(16)
    started: list[Gateway] = []
    for number in range(1, GATEWAYS + 1):
        own = folder / f"gateway-{number}"
        port, admin, sasl, ssl = free_ports(4)
        named = {"PLAINTEXT": port, "SASL_SSL": sasl, MTLS: ssl}
        settings = {
            **texts,
            "node.id": str(number),
            "listeners": ",".join(f"{name}://127.0.0.1:{at}" for name, at in named.items()),
            "admin.listener": f"127.0.0.1:{admin}",
            "peer.listener": "127.0.0.1:0",
            "peer.token": token,
            "metadata.log": f"sqlite:{folder}/metadata.db",
            "object.store": f"file:{folder}/store",
            "disk.cache.dir": str(own / "cache"),
            "audit.log.file": str(own / "audit.log"),
            "group.initial.rebalance.delay.ms": "0",
        }
        started.append(Gateway(number, own, port, admin, settings))
    (folder / "store").mkdir(parents=True)

    def reload() -> None:
        for each in started:
            each.signal(signal.SIGHUP)

    try:
        for each in started:
            each.start()
        yield Brokers(
            _addresses(started, "PLAINTEXT"),
            {name: _addresses(started, name) for name in ("SASL_SSL", MTLS)},
            reload,
            [each.log for each in started],
            [each.folder / "audit.log" for each in started],
        )
    finally:
        for each in started:
            if each.process is not None:
                each.process.stop()


def _addresses(gateways: Iterable[Gateway], listener: str) -> str:
    listeners = [each.texts["listeners"].split(",") for each in gateways]
    return ",".join(
        address.removeprefix(f"{listener}://")
        for addresses in listeners
        for address in addresses
        if address.startswith(f"{listener}://")
    )


@contextmanager
def kafka(texts: Mapping[str, str], keys_url: str) -> Generator[Brokers]:
    """Run Apache Kafka, to compare with.  Its certificates stay.  texts: from security()."""
    sasl, ssl = free_ports(2)
    listener = "listener.name.sasl_ssl"
    more = {
        "listeners": f"SASL_SSL://127.0.0.1:{sasl},SSL://127.0.0.1:{ssl}",
        "listener.security.protocol.map": (
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL"
        ),
        f"{listener}.oauthbearer.sasl.jaas.config": (
            f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required;"
        ),
        f"{listener}.oauthbearer.sasl.server.callback.handler.class": (
            f"{_MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
        ),
    }
    for each in ("scram-sha-256", "scram-sha-512"):
        more[f"{listener}.{each}.sasl.jaas.config"] = f"{_MODULES}.scram.ScramLoginModule required;"
    with ExitStack() as stack:
        with _java_options(f"-D{_ALLOWED_URLS}={keys_url}"):
            broker = stack.enter_context(running("kafka", {**texts, **more}))
        yield Brokers(broker.bootstrap, {"SASL_SSL": f"127.0.0.1:{sasl}", MTLS: f"127.0.0.1:{ssl}"})


@contextmanager
def _java_options(text: str) -> Generator[None]:
    """While the block runs, start each JVM with these options."""
    before = os.environ.get(_JAVA_OPTIONS)
    os.environ[_JAVA_OPTIONS] = text
    try:
        yield
    finally:
        if before is None:
            del os.environ[_JAVA_OPTIONS]
        else:
            os.environ[_JAVA_OPTIONS] = before
