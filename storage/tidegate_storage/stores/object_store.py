"""The object store the gateway needs: create, get, get a range, delete, list.

Every key is written once.  No object is ever overwritten, and a deleted key is never used again,
so create-if-absent is the only condition a store has to keep (docs/architecture.md, "Objects").

Implementations: MemoryObjectStore, FileObjectStore, RemoteObjectStore (S3, GCS, Azure).  All pass
contract.py, which authors of other stores can run, too.

Every call has a deadline, given to the store's constructor.  After it the call raises
StoreUnavailable, and the request may still take effect.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

Buffer: TypeAlias = bytes | bytearray | memoryview

DEFAULT_DEADLINE_SECONDS = 30.0
MAX_KEY_PART_BYTES = 255
_NO_NAMES = frozenset({"", ".", ".."})


class ObjectInfo(NamedTuple):
    """An object in list(); modified_at: seconds since 1970, by the store's clock."""

    key: str
    size_bytes: int
    modified_at: float


class ObjectStore(Protocol):
    """Immutable objects by key; keys are paths of parts divided by '/' (see check_key)."""

    @property
    def requests_cost_money(self) -> bool:
        """Whether the writer should budget its requests."""
        ...

    async def put(self, key: str, body: Buffer) -> None:
        """Create an object; when this returns, it is durable and whole.

        The body must not change until this returns or raises.

        Raises:
          ObjectExists: the key is taken.
          StoreUnavailable: outcome unknown; repeat the same call (see put_idempotent).
        """
        ...

    async def get(self, key: str) -> bytes:
        """Read a whole object.

        Raises:
          NoSuchObject: no object has this key.
          StoreUnavailable: try again later.
        """
        ...

    async def get_range(self, key: str, start: int, length: int) -> Buffer:
        """Read exactly length bytes (1 or more) from byte start.  These bytes never change.

        Raises:
          NoSuchObject: no object has this key.
          StoreUnavailable: try again later; also if the object ends before start + length.
        """
        ...

    async def delete_many(self, keys: Sequence[str]) -> None:
        """Delete objects; a missing one is no error.

        Raises:
          StoreUnavailable: some objects may be deleted; repeat the same call.
        """
        ...

    async def list(
        self, prefix: str, *, start_after: str = "", limit: int = 1000
    ) -> list[ObjectInfo]:
        """Return the first objects under prefix ('' or 'a/b/') after a key, in key order.

        Key order compares whole keys, or part by part, as SeaweedFS does.  The two differ only if
        a folder's name continues another's with a character below '/' ('a-b/c' and 'a/c').

        Raises:
          StoreUnavailable: try again later.
        """
        ...

    async def aclose(self) -> None:
        """Release the store's resources.  Calls under way may fail."""
        ...


@runtime_checkable
class AnswersHead(Protocol):
    """A store that also says whether it holds an object without reading it: HEAD."""

    async def exists(self, key: str) -> bool:
        """Return whether an object has this key.

        Raises:
          StoreUnavailable: try again later.
        """
        ...


class ObjectExists(Exception):
    """The key is taken: by another writer, or by the caller's earlier put whose reply was lost."""


class NoSuchObject(Exception):
    """No object has this key.  Do not retry: keys never return, so plan the read again."""


class StoreUnavailable(Exception):
    """The store did not answer, or refused for now.  Repeat the same call later."""


class StoreMisconfigured(Exception):
    """An operator must act: the sentence says how.  Do not retry."""


async def put_idempotent(store: ObjectStore, key: str, body: Buffer) -> None:
    """Put an object; if the key holds equal bytes already, succeed.

    For a put that is repeated after StoreUnavailable and may find its own first success.

    Raises:
      ObjectExists: the key holds other bytes.
      StoreUnavailable: outcome unknown; repeat the same call.
    """
    try:
        await store.put(key, body)
    except ObjectExists:
        # A difference may be damage in transit: only if two reads differ is it another object.
        if not (await _holds(store, key, body) or await _holds(store, key, body)):
            raise


async def object_exists(store: ObjectStore, key: str) -> bool:
    """Return whether an object has this key: by HEAD, or by a GET of its first byte.

    Raises:
      StoreUnavailable: try again later.
    """
    if isinstance(store, AnswersHead):
        return await store.exists(key)
    try:
        await store.get_range(key, 0, 1)
    except NoSuchObject:
        return False
    return True


async def _holds(store: ObjectStore, key: str, body: Buffer) -> bool:
    try:
        return await store.get(key) == body
    except NoSuchObject as error:
        raise StoreUnavailable(f"{key} exists, but cannot be read") from error


def check_key(key: str) -> None:
    """Refuse a key that some store could not hold, or would treat as another key.

    Raises:
      ValueError: a part is empty, '.', '..', too long, or holds a control character or backslash.
    """
    for part in key.split("/"):
        is_plain = part not in _NO_NAMES and part.isprintable() and "\\" not in part
        if not is_plain or len(part.encode()) > MAX_KEY_PART_BYTES:
            raise ValueError(f"{key!r} is not an object key: parts between '/' must be plain names")


def check_prefix(prefix: str) -> None:
    """Refuse a prefix that is not whole parts: stores disagree about half a part.

    Raises:
      ValueError: prefix is neither empty nor a key followed by '/'.
    """
    if prefix:
        if not prefix.endswith("/"):
            raise ValueError(f"the prefix {prefix!r} must end with '/'")
        check_key(prefix[:-1])
