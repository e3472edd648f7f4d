"""Real processes whose settings, clients and stores are full of canaries; see canaries.py.

The gateway has TLS, all mechanisms of SASL, a metadata log behind `tidegate log serve`, and three
links.  The source of one link refuses its password.  One link has bearer tokens.  One link gets no
token, from a provider that repeats what the client sent.  Files that hold secrets on purpose are in
one folder.  All other files that the processes write are in another folder.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import time
from base64 import b64decode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import serialization as se
from cryptography.hazmat.primitives.serialization import pkcs12

from tests.worlds.app_world import PATIENCE_SECONDS, Process, deadline, tidegate
from tests.worlds.forked_process import start_tidegate
from tests.worlds.security.sasl_client import PLAIN_MODULE
from tests.worlds.security.token_provider import ISSUER, Provider

OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@dataclass
class Canaries:
    """Secrets by kind.  Each is made when it is first used."""

    known: dict[str, bytes] = field(default_factory=dict)

    def __getitem__(self, kind: str) -> str:
        digest = hashlib.sha256(kind.encode()).hexdigest()
        return self.known.setdefault(kind, f"cnry{digest[:36]}".encode()).decode()

    def add(self, kind: str, secret: bytes) -> None:
        """Add a secret that is made elsewhere."""
        self.known[kind] = secret


class Stores:
    """Keys and certificates.  root: the file of the authority's certificate, in PEM."""

    def __init__(self, folder: Path, canaries: Canaries) -> None:
        ca = trustme.CA()
        issued = ca.issue_cert("localhost", "127.0.0.1")
        self.root = folder / "ca.pem"
        ca.cert_pem.write_to_path(str(self.root))
        key: Any = se.load_pem_private_key(issued.private_key_pem.bytes(), None)
        chain = [x509.load_pem_x509_certificate(each.bytes()) for each in issued.cert_chain_pems]
        authority = x509.load_pem_x509_certificate(ca.cert_pem.bytes())
        size = (key.key_size + 7) // 8
        canaries.add("TLS key", key.private_numbers().private_value.to_bytes(size))
        canaries.add("TLS key in PEM", issued.private_key_pem.bytes().splitlines()[2])
        self.keystore = folder / "server.p12"
        password = se.BestAvailableEncryption(canaries["keystore password"].encode())
        self.keystore.write_bytes(
            pkcs12.serialize_key_and_certificates(b"own", key, chain[0], [authority], password)
        )
        self.truststore = folder / "trust.p12"
        password = se.BestAvailableEncryption(canaries["truststore password"].encode())
        self.truststore.write_bytes(
            pkcs12.serialize_key_and_certificates(b"ca", None, None, [authority], password)
        )
        password = se.BestAvailableEncryption(canaries["key password"].encode())
        inline = key.private_bytes(se.Encoding.PEM, se.PrivateFormat.PKCS8, password)
        canaries.add("inline key", inline.splitlines()[2])
        self.inline_key = inline.decode()
        self.chain = issued.cert_chain_pems[0].bytes().decode()


def properties(texts: dict[str, str]) -> str:
    """Return the content of a properties file."""
    escaped = {name: text.replace("\\", "\\\\") for name, text in texts.items()}
    lines = (f"{name}={text}".replace("\n", "\\n") for name, text in escaped.items())
    return "\n".join(lines) + "\n"


@contextmanager
def granting(grant: Callable[[str], tuple[int, dict[str, str]]]) -> Iterator[str]:
    """Serve a token endpoint; yield its URL.

    grant: returns status and answer for an Authorization header.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            status, said = grant(self.headers["Authorization"])
            body = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            del format, arguments

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token"
        finally:
            server.shutdown()
            thread.join()


@dataclass
class CanaryCluster:
    """said: the output of processes and commands, and the pages, by place.

    work: the folder of all files that may hold no secret.
    """

    secret: Path
    work: Path
    canaries: Canaries = field(default_factory=Canaries)
    provider: Provider = field(default_factory=Provider)
    said: dict[str, str] = field(default_factory=dict)
    log_url: str = ""
    bootstrap_of_source: str = ""

    def __post_init__(self) -> None:
        self.secret.mkdir()
        self.work.mkdir()
        self.stores = Stores(self.secret, self.canaries)
        self.keys = self.secret / "keys.json"
        self.keys.write_bytes(self.provider.key_set())

    def write(self, name: str, texts: dict[str, str]) -> Path:
        """Write a properties file to the folder of secrets."""
        path = self.secret / name
        path.write_text(properties(texts))
        return path

    def run(self, place: str, *command: str, **environ: str) -> int:
        """Run a command; return its exit code."""
        more: Any = environ
        done = tidegate(*command, cwd=self.work, **more)
        self.said[place] = done.stdout + done.stderr
        return done.returncode

    def settings(self, log_token: str, log_address: str) -> dict[str, str]:
        """Return the settings of the gateway."""
        secret, listener = self.canaries, "listener.name.sasl_ssl"
        return {
            "listeners": "PLAINTEXT://127.0.0.1:0,SASL_SSL://127.0.0.1:0",
            "admin.listener": "127.0.0.1:0",
            "admin.token": secret["admin token"],
            "peer.listener": "127.0.0.1:0",
            "peer.token": secret["peer token"],
            "peer.security.protocol": "SSL",
            "listener.name.peer.ssl.keystore.key": self.stores.inline_key,
            "listener.name.peer.ssl.keystore.certificate.chain": self.stores.chain,
            "listener.name.peer.ssl.key.password": secret["key password"],
            f"{listener}.ssl.keystore.location": str(self.stores.keystore),
            f"{listener}.ssl.keystore.password": secret["keystore password"],
            f"{listener}.ssl.truststore.location": str(self.stores.truststore),
            f"{listener}.ssl.truststore.password": secret["truststore password"],
            f"{listener}.ssl.client.auth": "requested",
            f"{listener}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
            f"{listener}.plain.sasl.jaas.config": (
                f'{PLAIN_MODULE} required user_alice="{secret["PLAIN password"]}";'
            ),
            f"{listener}.oauthbearer.sasl.jaas.config": (
                f'{OAUTH_MODULE} required clientSecret="{secret["client secret"]}";'
            ),
            f"{listener}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": self.keys.as_uri(),
            f"{listener}.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
            "metadata.log": f"http://:{log_token}@{log_address}",
            "metadata.secret.key": secret["secret key"],
            "metadata.secret.old.keys": secret["old secret key"],
            "object.store": "file:objects",
            "link.client.properties": ",".join(
                f"{name}={self.secret / file}.properties"
                for name, file in (("src", "link"), ("tokens", "tokens"), ("none", "no-tokens"))
            ),
            "audit.log.file": "audit.log",
            "log.backup.interval.ms": "1000",
            "snapshot.interval.entries": "5",
            "link.topics.interval.ms": "1000",
        }

    def link_properties(self, name: str, servers: str, password: str) -> Path:
        """Write the properties of a client of the source."""
        return self.write(
            name,
            {
                "bootstrap.servers": servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": (
                    f'{PLAIN_MODULE} required username="linker" password="{password}";'
                ),
                "ssl.keystore.password": self.canaries["link keystore password"],
            },
        )

    def token_properties(self, name: str, servers: str, url: str, secret: str) -> Path:
        """Write the properties of a client of the source that logs in with tokens."""
        oauth = "sasl.oauthbearer"
        return self.write(
            name,
            {
                "bootstrap.servers": servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "OAUTHBEARER",
                "sasl.jaas.config": (
                    f'{OAUTH_MODULE} required extension_of="{self.canaries["SASL extension"]}"'
                    f' ssl.keystore.password="{self.canaries["endpoint keystore password"]}";'
                ),
                f"{oauth}.token.endpoint.url": url,
                f"{oauth}.client.credentials.client.id": "linker",
                f"{oauth}.client.credentials.client.secret": secret,
            },
        )

    def grant(self, authorization: str) -> tuple[int, dict[str, str]]:
        """Return the provider's answer to a client, which repeats a wrong secret."""
        login = b64decode(authorization.removeprefix("Basic ")).decode()
        secret = login.partition(":")[2]
        if secret != self.canaries["link client secret"]:
            said = f"{secret} is wrong, of {authorization}"
            return 401, {"error": "invalid_client", "error_description": said}
        token = self.token(jti=str(len(self.canaries.known)))
        number = len(self.canaries.known)
        self.canaries.add(f"link token {number}", token.encode())
        self.canaries.add(f"signature {number}", token.rpartition(".")[2].encode())
        return 200, {"access_token": token}

    @contextmanager
    def source(self) -> Iterator[Process]:
        """Run the gateway that is the source of the link."""
        jaas = f'{PLAIN_MODULE} required user_linker="{self.canaries["link password"]}";'
        listener = "listener.name.sasl_plaintext"
        file = self.write(
            "source.properties",
            {
                "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
                f"{listener}.sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER",
                f"{listener}.plain.sasl.jaas.config": jaas,
                f"{listener}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": self.keys.as_uri(),
                f"{listener}.oauthbearer.sasl.oauthbearer.expected.issuer": ISSUER,
                "metadata.log": "memory:",
                "object.store": "memory:",
            },
        )
        with self.serving("source", *self.command(file, "source")) as process:
            yield process

    @staticmethod
    def command(file: Path, data: str) -> tuple[str, ...]:
        """Return the arguments of a gateway with a file of settings and all log levels."""
        return ("serve", "--properties", str(file), "--data", data, "--log-level", "debug")

    @contextmanager
    def serving(self, place: str, *command: str) -> Iterator[Process]:
        """Run a process until the block ends.  Its stderr goes to a file, as it may fill a pipe."""
        stderr = self.work / f"{place}.stderr"
        with stderr.open("wb") as file:
            popen = start_tidegate(
                (*command, "--json"),
                cwd=self.work,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
            )
        try:
            assert popen.stdout is not None
            with deadline(popen):
                line = popen.stdout.readline()
            assert line, f"{place} did not start: {stderr.read_text()}"
            process = Process(popen, json.loads(line))
            self.said[place] = json.dumps(process.said)
            yield process
            popen.terminate()
            popen.wait(PATIENCE_SECONDS)
        finally:
            if popen.poll() is None:
                popen.kill()
            popen.communicate()

    @contextmanager
    def gateway(self) -> Iterator[Process]:
        """Run the source, the log server, a token endpoint and the gateway; yield the gateway."""
        token = self.secret / "token"
        token.write_text(self.canaries["log token"])
        serve = ("log", "serve", "sqlite:log.db", "--listen", "127.0.0.1:0", "--token-file")
        with ExitStack() as stack:
            source = stack.enter_context(self.source())
            server = stack.enter_context(self.serving("log server", *serve, str(token)))
            address = str(server.said["url"]).removeprefix("http://")
            self.log_url = f"http://{address}?token-file={token}"
            wrong = self.canaries["wrong link password"]
            self.link_properties("link.properties", source.servers, wrong)
            good = self.canaries["link password"]
            self.link_properties("good.properties", source.servers, good)
            url = stack.enter_context(granting(self.grant))
            for name, kind in (("tokens", "link client secret"), ("no-tokens", "wrong client")):
                secret = self.canaries[kind]
                self.token_properties(f"{name}.properties", source.servers, url, secret)
            self.bootstrap_of_source = source.servers
            file = self.write(
                "server.properties", self.settings(self.canaries["log token"], address)
            )
            with self.serving("gateway", *self.command(file, "data")) as process:
                yield process

    def token(self, **claims: Any) -> str:
        """Return a token of the identity provider that is valid now."""
        now = int(time.time())
        return self.provider.token(iat=now - 5, exp=now + 600, **claims)
