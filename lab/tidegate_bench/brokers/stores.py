"""Object stores for gateways of our own: each in its own place, which is dropped at the end."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol
from urllib.parse import urlsplit

import trio

from tidegate_storage.stores.load import open_store as open_object_store

from .. import checkout
from ..measure import proc

REGION = "us-east-1"


class Store(Protocol):
    """A store for gateways; pid: its process, if the bench started it."""

    @property
    def pid(self) -> int | None:
        """Return the store's process, if the bench started it."""
        ...

    def open_place(self, folder: Path) -> str:
        """Return the URL of an empty place, for the gateway with that folder."""
        ...

    def drop_place(self, url: str) -> None:
        """Delete the place's contents, if they belong to the bench."""
        ...


@dataclass(frozen=True, slots=True)
class NamedStore:
    """A store in memory, in files of the gateway's folder, or at a URL, below a new name."""

    name: str
    pid: None = None

    def open_place(self, folder: Path) -> str:
        """Return its URL."""
        own = {"memory": "memory:", "file": f"file:{folder}/objects"}
        if self.name in own:
            return own[self.name]
        place, mark, query = self.name.partition("?")
        return f"{place.rstrip('/')}/{folder.name}{mark}{query}"

    def drop_place(self, url: str) -> None:
        """Delete all objects; objects in a folder of the bench go with the folder."""
        if self.name not in ("memory", "file"):
            trio.run(_delete_all, url)


@dataclass(slots=True)
class Seaweed:
    """SeaweedFS: a bucket for each gateway, since deleting a bucket frees its space at once."""

    module: ModuleType
    endpoint: str
    pid: int | None
    buckets: int = field(default=0, init=False)

    def open_place(self, folder: Path) -> str:
        """Make a bucket."""
        self.buckets += 1
        bucket = f"bench-{self.buckets}"
        self.module.make_bucket(self.endpoint, bucket)
        return f"s3://{bucket}/run?endpoint={self.endpoint}&region={REGION}"

    def drop_place(self, url: str) -> None:
        """Delete the bucket with its contents."""
        client = self._client()
        bucket = urlsplit(url).netloc
        with suppress(client.exceptions.ClientError):  # the server goes anyway
            client.delete_bucket(Bucket=bucket)
        client.close()

    def _client(self) -> Any:
        import boto3

        connect: Any = boto3
        return connect.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=self.module.ACCESS_KEY,
            aws_secret_access_key=self.module.SECRET_KEY,
        )


async def _delete_all(url: str) -> None:
    store = open_object_store(url)
    try:
        while found := await store.list(""):
            await store.delete_many([each.key for each in found])
    finally:
        await store.aclose()


@contextmanager
def open_store(name: str) -> Generator[Store]:
    """Return memory, file, seaweedfs (which the bench starts), or the store of a URL.

    Raises:
      BenchError: SeaweedFS is not here.
    """
    if name != "seaweedfs":
        yield NamedStore(name)
        return
    with ExitStack() as stack:
        yield _seaweed(stack)


def _seaweed(stack: ExitStack) -> Seaweed:
    """Start SeaweedFS; its credentials go into our environment, which our gateways inherit."""
    module = checkout.seaweed()
    folder = Path(tempfile.mkdtemp(prefix="tidegate-bench-store-"))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    before = proc.children(os.getpid())
    endpoint: str = stack.enter_context(module.running_seaweed(folder))
    started = list(proc.children(os.getpid()) - before)
    pid = started[0] if len(started) == 1 else None
    if pid is not None:
        # An orderly stop takes long, and no run needs its data.
        stack.callback(os.kill, pid, signal.SIGKILL)
    os.environ["AWS_ACCESS_KEY_ID"] = module.ACCESS_KEY
    os.environ["AWS_SECRET_ACCESS_KEY"] = module.SECRET_KEY
    return Seaweed(module, endpoint, pid)
