"""PUTs of WAL objects: repeated with the same key until the object is stored.

The writer (wal_writer.py) sets a deadline, and abandons the object after it.
"""

from __future__ import annotations

import structlog
import trio

from tidegate_storage.stores.object_store import (
    ObjectExists,
    ObjectStore,
    StoreMisconfigured,
    StoreUnavailable,
    put_idempotent,
)

from ..network.transport import Buffer
from ..store_way.store_way import StoreWay
from ..upkeep.upkeep import Upkeep
from .wal_counters import WalCounters

_log = structlog.get_logger("tidegate.wal")

PUT_ATTEMPTS = 3
FIRST_RETRY_SECONDS = 0.1
# Shorter than PROVEN_SECONDS of store_way/marks.py.
LAST_RETRY_SECONDS = 0.8


class WalPuts:
    """See the module's head.

    Args:
      way: notes how the PUTs end.  upkeep: counts unexpected errors.
      timeout_seconds: the writer's, for all attempts for an object.
    """

    def __init__(
        self,
        store: ObjectStore,
        way: StoreWay,
        counters: WalCounters,
        upkeep: Upkeep,
        timeout_seconds: float,
    ) -> None:
        self._store = store
        self._way = way
        self._counters = counters
        self._upkeep = upkeep
        self._attempt_seconds = timeout_seconds / PUT_ATTEMPTS

    async def put(self, key: str, body: Buffer) -> None:
        """Store an object; return once the store has it.

        Raises:
          ObjectExists: another object has the key.
        """
        delay = FIRST_RETRY_SECONDS
        while True:
            began = trio.current_time()
            try:
                # A PUT that hangs is repeated.  If the first one succeeds later, the store sees
                # that the objects are equal.
                with trio.move_on_after(self._attempt_seconds):
                    await put_idempotent(self._store, key, body)
                    now, counters = trio.current_time(), self._counters
                    counters.objects += 1
                    counters.bytes += len(body)
                    counters.stored_at = now
                    counters.times.puts.add(now - began)
                    self._way.puts.succeeded(now)
                    return
                self._counters.put_retries += 1
                self._way.puts.failed(began, "no answer")
                _log.warning("object store does not answer", key=key)
                continue
            except (StoreUnavailable, StoreMisconfigured) as error:
                # A person may renew expired credentials while the PUT is repeated.
                self._counters.put_retries += 1
                self._way.puts.failed(began, str(error))
                _log.warning("object store did not take a WAL object", key=key, error=str(error))
            except ObjectExists:
                raise
            except Exception as error:
                self._counters.put_retries += 1
                self._upkeep.note("store a WAL object", error, key=key)
            await trio.sleep(delay)
            delay = min(delay * 2, LAST_RETRY_SECONDS)
