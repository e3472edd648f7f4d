"""The simulated world: machines over one log and one store, on virtual time, from one seed.

All code reads time and randomness through the world.  Time is Trio's mock clock.  Each part has a
named random.Random of its own, so that a change in one part does not change the draws of others.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

import trio

from tidegate_coordination.client.properties.client import ClientProperties
from tidegate_coordination.client.wire.dialling import Dial, dial_of
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.forwarding.service import ProposalService
from tidegate_coordination.state.records.partitions import Partition
from tidegate_gateway.gateway import Gateway
from tidegate_gateway.network.memory_transport import MemoryTransport
from tidegate_runtime.http.values import HttpAnswer, HttpRequest
from tidegate_storage.stores.memory_store import MemoryObjectStore
from tidegate_storage.stores.object_store import Buffer, ObjectExists

from ..checks.checker import Violation
from ..checks.history import History
from ..invariants.deletion_checks import DeletionWatch
from ..invariants.group_checks import GroupWatch
from ..invariants.invariants import StateWatch
from ..invariants.lease_checks import LeaseWatch
from ..invariants.settings_checks import SettingsWatch
from ..plans.expiry_plan import id_retention_ms, retention_ms
from ..plans.faults import FaultPlan
from ..plans.losses import Hurt
from ..plans.move_plan import FIRST_LOG, MOVED
from ..plans.strikes import Strikes
from .answer_tally import AnswerTally
from .cuts import Cuts
from .identity_provider import IdentityProvider
from .tasks.stalls import Stalls
from .watched_log import WatchedLog

EPOCH_SECONDS = 1_700_000_000.0


class WatchedStore(MemoryObjectStore):
    """A MemoryObjectStore with synchronous reads."""

    def __init__(self, clock: Callable[[], float], deletions: DeletionWatch) -> None:
        super().__init__(clock)
        self._deletions = deletions
        self._lost: set[str] = set()

    def peek(self, key: str) -> bytes | None:
        """Return the body of an object, if there is one."""
        found = self._objects.get(key)
        return found[0] if found is not None else None

    def all_keys(self) -> list[str]:
        """Return the keys of all objects, sorted."""
        return sorted(self._objects)

    def replace(self, key: str, body: bytes | None) -> None:
        """Replace the body of an object, or delete it; see losses.py."""
        _, modified_at = self._objects.pop(key)
        if body is not None:
            self._objects[key] = (body, modified_at)
        else:
            self._sorted_keys.remove(key)
            self._lost.add(key)

    def put_back(self, key: str, body: bytes) -> None:
        """Undo replace()."""
        found = self._objects.get(key)
        if found is None:
            insort(self._sorted_keys, key)
            self._lost.discard(key)
        self._objects[key] = (body, found[1] if found is not None else self._clock())

    async def put(self, key: str, body: Buffer) -> None:
        """See ObjectStore.  A late copy of a put does not restore a lost object."""
        if key in self._lost:
            raise ObjectExists(key)
        await super().put(key, body)
        self._deletions.stored(key)

    async def delete_many(self, keys: Sequence[str]) -> None:
        """See ObjectStore."""
        await super().delete_many(keys)
        self._deletions.deleted(keys)


class NotReachable(Exception):
    """No gateway listens at this machine now."""


class Machine(Protocol):
    """The machine of a gateway; see node.py."""

    name: str
    zone: str

    @property
    def gateway(self) -> Gateway | None:
        """Return the gateway while it serves, else None."""
        ...

    def connect(self, process: str, listener: str = "PLAINTEXT") -> MemoryTransport:
        """Open a connection to a listener; return the client's end.

        Raises:
          NotReachable: it is down.
        """
        ...

    @property
    def answers(self) -> AnswerTally:
        """Return the tally of answers that clients got from the gateway.

        Raises:
          NotReachable: it is down.
        """
        ...

    def drop(self, process: str) -> None:
        """Lose the bytes in flight between the machine and a client."""
        ...

    def ask(self, request: HttpRequest, answered: Callable[[HttpAnswer], None]) -> None:
        """Answer another gateway's request, unless this gateway dies first.

        Raises:
          NotReachable: it is down.
        """
        ...


class AskedMachine(Protocol):
    """The machine of a gateway, as other gateways ask it; see peers.py.

    name: as cuts name it.  is_unreachable: nothing arrives.  proposals: None while no gateway
    serves there.
    """

    name: str
    is_unreachable: bool

    @property
    def proposals(self) -> ProposalService | None: ...


@dataclass(slots=True)
class World:
    """The shared parts of a run.

    nodes, peers: by node id.  late: the clients have finished before a promised fault landed.
    healed: faults are over.  lives: the number of started gateways.  cuts: the network's cuts now.
    stop_at: kinds of violations that end the run.  logs: by URL.  homes: the URLs of former logs
    and the current one.  next_log: the target of the next move, "" if no mover has named one.
    when_moved: called when the old log is sealed and the new one continues.  hurt: what the store
    lost for good.  number_of: returns a partition's number in histories.  unanswered_creates:
    topics that an unanswered request may still create.  source_dial: see Environment.  lost_shares:
    the part of the answers about shares of quotas that is lost.  unheard: pairs of gateways; the
    first one's questions about shares do not reach the second.  unseen: the same for probes.
    provider: of tokens; gateways ask it only if clients log in by its tokens.
    """

    seed: int
    plan: FaultPlan
    settings: dict[str, str]
    nursery: trio.Nursery
    strikes: Strikes
    violations: list[Violation] = field(default_factory=list[Violation])
    late: trio.Event = field(default_factory=trio.Event)
    healed: bool = False
    stop_at: Collection[str] = ()
    lives: int = 0
    stalls: Stalls = field(default_factory=Stalls)
    cuts: Cuts = field(init=False)
    history: History = field(init=False)
    store: WatchedStore = field(init=False)
    hurt: Hurt = field(init=False)
    settings_watch: SettingsWatch = field(init=False)
    groups_watch: GroupWatch = field(init=False)
    watch: StateWatch = field(init=False)
    logs: dict[str, WatchedLog] = field(default_factory=dict[str, WatchedLog])
    homes: list[str] = field(default_factory=lambda: [FIRST_LOG])
    next_log: str = ""
    when_moved: list[Callable[[], None]] = field(default_factory=list[Callable[[], None]])
    unanswered_creates: set[str] = field(default_factory=set[str])
    nodes: dict[int, Machine] = field(default_factory=dict[int, Machine])
    peers: dict[int, AskedMachine] = field(default_factory=dict[int, AskedMachine])
    coordinators: dict[int, Coordinator] = field(default_factory=dict[int, Coordinator])
    source_dial: Callable[[ClientProperties], Dial] = dial_of
    lost_shares: float = 0.0
    unheard: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    unseen: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    provider: IdentityProvider = field(init=False)
    number_of: Callable[[bytes, int], int | None] = lambda topic_id, partition: None

    def __post_init__(self) -> None:
        """Make the shared parts."""
        self.cuts = Cuts(self._zone_of)
        self.provider = IdentityProvider(self.plan.logins.bearers, self.rng("identity provider"))
        self.history = History(trio.current_time)
        deletions = DeletionWatch(
            self.complain,
            grace_ms=int(self.settings["object.delete.grace.ms"]),
            has_backups=self.settings.get("log.backup.interval.ms") != "0",
        )
        self.store = WatchedStore(self.wall_clock, deletions)
        self.hurt = Hurt(self.store, lambda: self.watch.state)
        self.settings_watch = SettingsWatch(self.plan.static, self.complain)
        self.groups_watch = GroupWatch(
            self.history,
            self.complain,
            self.strikes.count,
            lambda topic_id, partition: self.number_of(topic_id, partition),
            retention_ms=retention_ms(self.settings),
        )
        self.watch = StateWatch(
            self.store.peek,
            self.complain,
            deletions,
            lambda units: self.strikes.count("pipeline.published", units),
            lambda: self.strikes.count("pipeline.compacted", 1),
            hurt=self.hurt,
            on_lost=self._lost,
            on_back=self._back,
            on_moved=self._moved,
            settings=self.settings_watch,
            groups=self.groups_watch,
            leases=LeaseWatch(self.complain, trio.current_time),
            id_retention_ms=id_retention_ms(self.settings),
            count=self.strikes.count,
        )

    def _zone_of(self, part: str) -> str:
        node = next((each for each in self.nodes.values() if each.name == part), None)
        return node.zone if node is not None else self.plan.zones.of_client(part)

    def log_at(self, url: str) -> WatchedLog:
        """Return a log; it is empty if it was not used before."""
        if url not in self.logs:
            self.logs[url] = WatchedLog(self.watch, url)
        return self.logs[url]

    def _moved(self, url: str) -> None:
        self.homes.append(url)
        self.next_log = ""
        self.strikes.count(MOVED)
        for each in self.when_moved:
            each()

    def _lost(self, partition: Partition, base_offset: int, next_offset: int) -> None:
        """Record in the history which offsets a repair declared lost."""
        number = self.number_of(partition.topic_id, partition.index)
        stretch = {"base": base_offset, "next": next_offset, "start": partition.log_start}
        self.history.note("operator", "ok", "lost", {"key": number, **stretch})

    def _back(self, partition: Partition, base_offset: int, next_offset: int) -> None:
        """Record in the history which offsets a repair brought back."""
        number = self.number_of(partition.topic_id, partition.index)
        stretch = {"base": base_offset, "next": next_offset, "start": partition.log_start}
        self.history.note("operator", "ok", "back", {"key": number, **stretch})

    @property
    def landed(self) -> Counter[str]:
        """Return the faults that landed, by kind; callers may count further kinds."""
        return self.strikes.landed

    def rng(self, name: str) -> Random:
        """Return the randomness of a named part."""
        return Random(f"{self.seed}/{name}")

    def wall_clock(self) -> float:
        """Return the true time, in seconds since 1970."""
        return EPOCH_SECONDS + trio.current_time()

    def complain(self, kind: str, text: str) -> None:
        """Report a violation at once, during the run."""
        self.violations.append(Violation(kind, f"at {trio.current_time():.3f} s: {text}"))
        if kind in self.stop_at:
            self.nursery.cancel_scope.cancel()
