"""Emulators of clouds' services, on free ports of the loopback, empty, in memory.

Each yields the URL of a store or a log, and sets the environment variables that clients read.  A
test may choose the last part of the URL.  All raise MissingTool where the emulator cannot be
installed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from typing import Final

from harness import install
from harness.places import WORK, log_of
from harness.process import Command, Process, free_ports, spawn

from tests.worlds import gcs_fake

READY_SECONDS: Final = 90.0
# Azurite has one account, whose key everybody knows.
ACCOUNT: Final = "devstoreaccount1"
ACCOUNT_KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
CONTAINER: Final = "box"

# Returns the URL whose last part is the argument.
Place = Callable[[str], str]


@contextmanager
def dynamodb_local() -> Generator[Place]:
    """Amazon's own emulator."""
    jars = install.dynamodb_local_jars()
    (port,) = free_ports(1)
    main = "software.amazon.dynamodb.services.local.main.ServerRunner"
    command: Command = ["java", "-Xmx256m", f"-Djava.library.path={jars}", "-cp", f"{jars}/*", main]
    command = [*command, "-inMemory", "-disableTelemetry", "-port", str(port)]
    with _dynamodb("dynamodb-local", command, port, {}) as place:
        yield place


@contextmanager
def ministack() -> Generator[Place]:
    program = install.python_program("ministack", "ministack==1.5.33")
    (port,) = free_ports(1)
    environment = {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "IOT_MTLS_ENABLED": "0",  # otherwise the server opens another port
    }
    with _dynamodb("ministack", [program / "ministack"], port, environment) as place:
        yield place


@contextmanager
def azurite() -> Generator[Place]:
    """Microsoft's emulator of Azure Blob Storage, with one container."""
    folder = install.node_client("azurite")
    (port,) = free_ports(1)
    program = folder / "node_modules" / ".bin" / "azurite-blob"
    command: Command = ["node", program, "--inMemoryPersistence", "--skipApiVersionCheck"]
    command = [*command, "--silent", "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    environment = {
        "AZURE_STORAGE_USE_EMULATOR": "true",
        "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}",
    }
    with _running("azurite", command, port, {}), _environment(environment):
        _make_container(f"http://127.0.0.1:{port}")
        yield lambda part: f"az://{CONTAINER}/{part}?use_emulator=true"


@contextmanager
def fake_gcs() -> Generator[Place]:
    """Our own fake of Google Cloud Storage, for want of an emulator that keeps preconditions."""
    with (
        _environment({"GOOGLE_BEARER_TOKEN": gcs_fake.TOKEN}),
        gcs_fake.running_gcs_fake() as (url, _),
    ):
        yield lambda part: url.replace("?", f"/{part}?")


@contextmanager
def _dynamodb(
    name: str, command: Command, port: int, environment: Mapping[str, str]
) -> Generator[Place]:
    keys = {"AWS_ACCESS_KEY_ID": "tests", "AWS_SECRET_ACCESS_KEY": "tests"}
    with _running(name, command, port, environment), _environment(keys):
        query = f"region=us-east-1&endpoint=http://127.0.0.1:{port}"
        yield lambda part: f"dynamodb://tidegate-tests/{part}?{query}"


@contextmanager
def _running(
    name: str, command: Command, port: int, environment: Mapping[str, str]
) -> Generator[Process]:
    process = spawn(command, log_of(name), cwd=WORK, env=environment)
    try:
        process.wait_until(lambda: _answers(port), READY_SECONDS)
        yield process
    finally:
        process.kill()


def _answers(port: int) -> bool:
    """Return whether an HTTP server is there; any answer will do."""
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@contextmanager
def _environment(variables: Mapping[str, str]) -> Generator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _make_container(endpoint: str) -> None:
    """One PUT, signed with the account's key."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-12-02"}
    signed_headers = "".join(f"{name}:{value}\n" for name, value in sorted(headers.items()))
    # The path holds the account, and the resource names it again.
    resource = f"/{ACCOUNT}/{ACCOUNT}/{CONTAINER}\nrestype:container"
    text = "PUT" + "\n" * 12 + signed_headers + resource
    key = base64.b64decode(ACCOUNT_KEY)
    signature = base64.b64encode(hmac.digest(key, text.encode(), hashlib.sha256)).decode()
    request = urllib.request.Request(
        f"{endpoint}/{ACCOUNT}/{CONTAINER}?restype=container",
        method="PUT",
        headers={**headers, "Authorization": f"SharedKey {ACCOUNT}:{signature}"},
    )
    urllib.request.urlopen(request, timeout=30).close()
