"""The transactional clients of a run."""

from __future__ import annotations

from random import Random
from typing import Final, TypeAlias

from ..clients.fleeting import Lives
from ..clients.workload import Workload
from ..plans.expiry_plan import OFFSETS, PRODUCERS
from ..plans.transaction_plan import TransactionPlan
from .committed_readers import CommittedReader
from .etl import EtlFeeder, EtlMember
from .ledger import Ledger
from .tools import Aborter, Inspector
from .transactors import Dawdler, Deserter, Transactor

_LEISURE: Final = 3.0

TransactionalClient: TypeAlias = Transactor | CommittedReader | Inspector | Aborter | EtlMember


def transactional_clients(workload: Workload, lives: Lives | None) -> list[TransactionalClient]:
    """Return producers of both protocol versions, readers of committed records, and the other
    clients that the plan has drawn.

    lives: those of a topic that is deleted during the run.
    """
    rng = workload.world.rng("transactional clients")
    plan = workload.world.plan.transactions
    twins = Ledger("twins", rng.choice(workload.keys), are_twins=True)
    first = Ledger("t1", rng.choice(workload.keys))
    second = Ledger("t2", rng.choice(workload.keys))
    clients: list[TransactionalClient] = [
        Transactor(workload, "transactor 1", first, is_new=True, lives=lives),
        Transactor(workload, "transactor 2", second, is_new=False, lives=lives),
        CommittedReader(workload, "committed reader"),
        Inspector(workload, "inspector", [first, second, twins]),
    ]
    if rng.random() < 0.5:
        clients += [
            Transactor(workload, f"twin transactor {number}", twins, is_new=rng.random() < 0.5)
            for number in (1, 2)
        ]
    if plan.is_focused:
        for each in clients:
            if isinstance(each, CommittedReader | Inspector):
                each.client.leisure = _LEISURE
        third = Ledger("t3", rng.choice(workload.keys))
        clients.append(Transactor(workload, "transactor 3", third, is_new=False, lives=lives))
    return [*clients, *_drawn(workload, plan, rng), *_etl(workload, plan, rng)]


def _drawn(workload: Workload, plan: TransactionPlan, rng: Random) -> list[TransactionalClient]:
    clients: list[TransactionalClient] = []
    if plan.has_deserters:
        for number in (1, 2):
            ledger = Ledger(f"left {number}", rng.choice(workload.keys))
            clients.append(Deserter(workload, f"deserter {number}", ledger, is_new=number == 1))
    if plan.has_aborter:
        clients.append(Aborter(workload, "aborter"))
    if PRODUCERS in workload.world.settings:
        ledger = Ledger("slow", rng.choice(workload.keys))
        clients.append(Dawdler(workload, "dawdler", ledger, is_new=rng.random() < 0.5))
    return clients


def _etl(workload: Workload, plan: TransactionPlan, rng: Random) -> list[TransactionalClient]:
    """Return the clients of consume-process-produce; none if offsets expire.

    A member whose offset has expired would process its inputs again.
    """
    if not plan.has_etl or OFFSETS in workload.world.settings:
        return []
    is_new = rng.random() < 0.5
    members = [EtlMember(workload, f"etl {n}", is_new=rng.random() < 0.5) for n in (1, 2)]
    return [EtlFeeder(workload, "etl feeder", is_new=is_new), *members]
