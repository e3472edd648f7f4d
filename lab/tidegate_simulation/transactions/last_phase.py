"""Promises about transactions that hold once all faults are over."""

from __future__ import annotations

from collections import Counter

import trio

from tidegate_protocol.messages import list_transactions

from ..clients.client import Client, Disconnected
from ..clients.workload import Workload
from .etl import finish


async def finish_transactions(workload: Workload) -> None:
    """Wait until open transactions have timed out; process the remaining inputs.

    Raises nothing, but may wait for ever: the caller sets a limit.
    """
    if not workload.world.plan.has_wrong_clocks:
        while workload.world.watch.state.transactions.open_ids():  # noqa: ASYNC110 - as tools do
            await trio.sleep(1.0)
    if workload.lane.inputs:
        await finish(workload)
    await _list_all(workload)


async def _list_all(workload: Workload) -> None:
    """Ask all gateways, as tools do: together they must list each id once (KIP-664)."""
    client, state = Client(workload.world, "lister"), workload.world.watch.state
    listed: Counter[str] = Counter()
    before, brokers = set(state.transactions.names()), _incarnations(workload)
    for node_id in sorted(each.node_id for each in state.gateways.brokers()):
        listed.update(await _listed_at(client, node_id))
    client.close()
    lacking = before.intersection(state.transactions.names()) - listed.keys()  # some may expire
    repeated = {name for name, count in listed.items() if count > 1}
    if (lacking or repeated) and brokers == _incarnations(workload):
        text = f"{sorted(repeated)} are listed twice, {sorted(lacking)} not at all"
        workload.world.complain("wrong list of transactions", text)


def _incarnations(workload: Workload) -> set[int]:
    return {each.incarnation for each in workload.world.watch.state.gateways.brokers()}


async def _listed_at(client: Client, node_id: int) -> list[str]:
    while True:
        try:
            answer = await client.call(
                "ListTransactions",
                list_transactions,
                1,
                list_transactions.ListTransactionsRequest(),
                node_id=node_id,
            )
        except Disconnected:
            await client.pause(1.0)
            continue
        return [each.transactional_id for each in answer.transaction_states]
