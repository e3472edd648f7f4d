"""Runs SeaweedFS, an S3 server from a wheel, on free loopback ports."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

ACCESS_KEY = "tidegate-test-key"
SECRET_KEY = "tidegate-test-secret"
READY_SECONDS = 60.0
ATTEMPTS = 3
_IN_USE = "address already in use"
_GRPC_SHIFT = 10_000  # each server's gRPC port is its port plus this


@contextmanager
def running_seaweed(folder: Path) -> Iterator[str]:
    """Start a server with its data in folder; yield its S3 endpoint; end it by its handle."""
    (folder / "data").mkdir()
    (folder / "ids.json").write_text(json.dumps(_identities()))
    process, endpoint = _started(folder)
    try:
        yield endpoint
    finally:
        _end(process)


def _started(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    """Start it on free ports; try others if another process took one meanwhile."""
    log_path = folder / "weed.log"
    for left in reversed(range(ATTEMPTS)):
        ports = _free_ports(4)
        with log_path.open("wb") as log:
            process = subprocess.Popen(_command(folder, *ports), stdout=log, stderr=log, cwd=folder)
        endpoint = f"http://127.0.0.1:{ports[-1]}"
        try:
            _wait_until_ready(process, endpoint, log_path)
        except BaseException as error:
            _end(process)
            if left and isinstance(error, RuntimeError) and _IN_USE in log_path.read_text():
                continue
            raise
        return process, endpoint
    raise AssertionError("the last attempt raises")


def _command(folder: Path, master: int, volume: int, filer: int, s3: int) -> list[str]:
    return [
        str(Path(sys.executable).parent / "weed"),
        "-logtostderr",
        "server",
        f"-dir={folder / 'data'}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-master.port={master}",
        f"-volume.port={volume}",
        "-filer",
        f"-filer.port={filer}",
        "-s3",
        f"-s3.port={s3}",
        f"-s3.config={folder / 'ids.json'}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=100",
        "-master.electionTimeout=1s",
        "-master.heartbeatInterval=100ms",
    ]


def _end(process: subprocess.Popen[bytes]) -> None:
    # An orderly stop takes ten seconds, and the data is dropped anyway.
    process.kill()
    process.wait()


def make_bucket(endpoint: str, bucket: str) -> None:
    """Create a bucket, waiting until the server can store something in it."""
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError, ClientError

    client = boto3.client(
        "s3",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=SECRET_KEY,
        config=Config(connect_timeout=5, read_timeout=5, retries={"max_attempts": 0}),
    )
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            if bucket not in [found["Name"] for found in client.list_buckets()["Buckets"]]:
                client.create_bucket(Bucket=bucket)
            client.put_object(Bucket=bucket, Key="ready", Body=b"ready")
            client.delete_object(Bucket=bucket, Key="ready")
            break
        except (BotoCoreError, ClientError):
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
    client.close()


def _identities() -> dict[str, object]:
    identity = {
        "name": "tidegate",
        "credentials": [{"accessKey": ACCESS_KEY, "secretKey": SECRET_KEY}],
        "actions": ["Admin", "Read", "List", "Tagging", "Write"],
    }
    return {"identities": [identity]}


def _free_ports(count: int) -> list[int]:
    """Return ports that are free now, with their gRPC partners."""
    ports: list[int] = []
    with ExitStack() as held:
        while len(ports) < count:
            probe = held.enter_context(socket.socket())
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
            if port + _GRPC_SHIFT < 65_536 and _is_free(port + _GRPC_SHIFT):
                ports.append(port)
    return ports


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _wait_until_ready(process: subprocess.Popen[bytes], endpoint: str, log_path: Path) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{endpoint}/healthz", timeout=1):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError(f"SeaweedFS did not start:\n{log_path.read_text()[-4000:]}")
