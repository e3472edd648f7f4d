"""A drill: a log is restored from a copy of the prefix, and runs beside the original."""

from __future__ import annotations

import pytest
from trio.testing import MockClock

from tests.worlds.backup_world import (
    CLUSTER,
    back_up,
    batch_of,
    memory_store,
    replayed,
    restored,
    writers,
)
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.object_names.keys import object_key
from tidegate_storage.objects.ownership import check_owner
from tidegate_storage.stores.object_store import StoreMisconfigured


async def test_a_restored_log_may_not_delete_in_a_store_it_was_not_restored_with(
    autojump_clock: MockClock,
) -> None:
    production, copy = memory_store(), memory_store()
    log, drill = MemoryLog(), MemoryLog()
    async with writers(log, production, 1) as [writer]:
        await writer.create_topic("t")
        await writer.write(("t", batch_of(b"a", b"b")))
        await back_up(log, production)
    for info in await production.list(""):
        await copy.put(info.key, await production.get(info.key))
    await restored(copy, drill)
    state = await replayed(drill)
    # The drill's log calls some objects dead that production still needs. Its housekeeper would
    # delete them.
    keys = [object_key(state, state.objects.name(each)) for each in state.objects.numbers()]
    assert keys
    stored = {each.key for each in await production.list("")}
    assert stored.issuperset(keys)
    with pytest.raises(StoreMisconfigured):  # only this check prevents a start there
        await check_owner(production, CLUSTER, timeline=state.timeline)
