"""Runs all links of the cluster state at this gateway, one task for each link."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Final, cast

import structlog
import trio

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import AnotherCluster, ClassicError
from tidegate_coordination.client.opened_source import with_advice
from tidegate_coordination.client.properties.client import ClientProperties, without_effect
from tidegate_coordination.client.tokens.source import TokenSources
from tidegate_coordination.client.walked_batches import DECOMPRESSED_BYTES
from tidegate_coordination.client.wire.dialling import Dial
from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.state.changes import LINKS
from tidegate_coordination.state.migration.links import Link

from ..fetch.log_reader import LogReader
from ..produce.wal_writer import WalWriter
from ..upkeep.upkeep import Upkeep
from ..work.blocking import Blocking
from ..work.fair_pool import FairPool
from .assignment import candidates, looks_after
from .back.returning import Returning
from .back.source_watch import SourceWatch
from .back.writing import Reversing
from .fence_ages import AnyFence, FenceAges
from .group_lines import GroupLines
from .mirror.link import LinkMirror
from .mirror.tokens import MirrorBytes
from .mirror.topic_sync import TopicSync
from .mirror.walks import MirrorWalks
from .properties_file import PropertiesFile
from .switch.switching import Switching

_log = structlog.get_logger("tidegate.links")

AGAIN_SECONDS: Final = 5.0
NO_FILE: Final = "the link has no file in link.client.properties here"


@dataclass(frozen=True, slots=True)
class LinkSettings:
    """Settings of links.

    files: client properties, by link.  forward_files: client properties for forwarding writes, if
    they differ.  sync_seconds: the time between two looks at the source's topics.  group_lines: see
    GroupLines.  decompressed_bytes: see MirrorWalks.
    """

    files: Mapping[str, Path]
    forward_files: Mapping[str, Path] = field(default_factory=dict[str, Path])
    held_bytes: int = 32 << 20
    wait_seconds: float = 1.0
    sync_seconds: float = 10.0
    group_lines: int = 500
    decompressed_bytes: int | None = DECOMPRESSED_BYTES


class RunningLink:
    """The state of a link at this gateway.

    forwards_to: the source, for forwarded writes; None if nothing is forwarded now.  group_lines:
    the connections to the source for groups; None if nothing is forwarded now.  problem: why the
    link does not run; "" if it does.  tokens: of OAUTHBEARER, for all connections of the link.
    """

    def __init__(self, link: Link, tokens: TokenSources) -> None:
        self.link = link
        self.tokens = tokens
        self.mirror: LinkMirror | None = None
        self.sync: TopicSync | None = None
        self.watch: SourceWatch | None = None
        self.reversing: Reversing | None = None
        self.forwards_to: ClassicCluster | None = None
        self.group_lines: GroupLines | None = None
        self.problem = ""
        self.scope = trio.CancelScope()


class Links:
    """See the module's head.

    Args:
      dial: returns a way to connect, from client properties.  It reads files.
      without_store: see LinkMirror.
      pool: walks over records.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        writer: WalWriter,
        reader: LogReader,
        settings: LinkSettings,
        dial: Callable[[ClientProperties], Dial],
        *,
        blocking: Blocking,
        pool: FairPool,
        rng: Random,
        upkeep: Upkeep,
        without_store: Callable[[], frozenset[int]],
    ) -> None:
        self.running: dict[str, RunningLink] = {}
        self.held = MirrorBytes(settings.held_bytes)
        self.fence_ages = FenceAges(coordinator)
        self._coordinator = coordinator
        self._writer = writer
        self._reader = reader
        self._settings = settings
        self._dial = dial
        self._blocking = blocking
        self._pool = pool
        self._rng = rng
        self._upkeep = upkeep
        self._without_store = without_store
        self._seen = -1
        self._changed = trio.Event()
        coordinator.listen(self._on_change, LINKS)

    def on_fence(self, fence: AnyFence) -> None:
        """Hurry the mirror to the source's ends, since a switch or a move has begun."""
        running = self.running.get(fence.link)
        if running is not None and running.mirror is not None:
            running.mirror.hurry()

    def _on_change(self, _touched: set[int]) -> None:
        if self._coordinator.state.links.version != self._seen:
            self._changed.set()

    async def run(self) -> None:
        """Run the links that the state has, forever."""
        table = self._coordinator.state.links
        self.running.clear()
        async with trio.open_nursery() as nursery:
            while True:
                self._seen, self._changed = table.version, trio.Event()
                for name, running in list(self.running.items()):
                    if table.by_name.get(name) is not running.link:
                        running.scope.cancel()
                        del self.running[name]
                for name, link in table.by_name.items():
                    if name not in self.running:
                        tokens = TokenSources(self._rng)
                        running = self.running[name] = RunningLink(link, tokens)
                        nursery.start_soon(self._keep, running)
                await self._changed.wait()

    async def _keep(self, running: RunningLink) -> None:
        """Run a link, and restart it after each failure."""
        with running.scope:
            while True:
                try:
                    await self._serve(running)
                except Exception as error:
                    self._note(running, error)
                running.mirror = running.sync = running.watch = running.forwards_to = None
                running.reversing = running.group_lines = None
                await trio.sleep(AGAIN_SECONDS)

    def _note(self, running: RunningLink, error: Exception) -> None:
        """Log and show why a link does not run.

        Raises:
          Exception: an error that must stop the gateway; see Upkeep.
        """
        first = _first(error)
        has_file = running.link.name in self._settings.files
        problem = str(first) or type(first).__name__
        running.problem = with_advice(problem, "" if has_file else NO_FILE)
        if isinstance(first, ClassicError | OSError | UnicodeError):
            _log.warning("a link does not run", link=running.link.name, error=running.problem)
        else:
            self._upkeep.note("run a link", error, link=running.link.name)

    async def _serve(self, running: RunningLink) -> None:
        link = running.link
        async with trio.open_nursery() as nursery:
            cluster = await self._cluster(nursery, running, self._settings.files.get(link.name))
            await self._open_forwarding(running, nursery, cluster)
            running.problem = ""
            running.sync = TopicSync(self._coordinator, link, cluster)
            running.mirror = LinkMirror(
                self._coordinator,
                self._writer,
                self.held,
                link,
                cluster,
                MirrorWalks(self._pool, link.name, self._settings.decompressed_bytes),
                wait_seconds=self._settings.wait_seconds,
                without_store=self._without_store,
            )
            running.watch = SourceWatch(self._coordinator, self._reader, link, cluster)
            nursery.start_soon(running.mirror.run)
            nursery.start_soon(running.watch.run)
            members = running.group_lines.cluster if running.group_lines is not None else None
            ages = self.fence_ages
            nursery.start_soon(Switching(self._coordinator, link, cluster, members, ages).run)
            running.reversing = Reversing(self._coordinator, self._reader, link, cluster)
            nursery.start_soon(running.reversing.run)
            nursery.start_soon(Returning(self._coordinator, link, cluster, ages).run)
            await self._sync_forever(running.sync, link.name)

    async def _open_forwarding(
        self, running: RunningLink, nursery: trio.Nursery, cluster: ClassicCluster
    ) -> None:
        """Make the parts that forward requests of clients to the source.

        Raises:
          ClassicError, OSError, UnicodeError: see _cluster.
        """
        link, settings = running.link, self._settings
        own_file = settings.forward_files.get(link.name)
        if link.forwards:
            running.forwards_to = cluster
            if own_file is not None:
                running.forwards_to = await self._cluster(nursery, running, own_file)
        if link.groups or link.transactional_ids:
            file = own_file or settings.files.get(link.name)
            source = await self._cluster(nursery, running, file)
            running.group_lines = GroupLines(source, settings.group_lines)

    async def _cluster(
        self, nursery: trio.Nursery, running: RunningLink, path: Path | None
    ) -> ClassicCluster:
        """Return the source's client.  path: of its properties.

        Raises:
          ClassicError: the source cannot be reached, or is another cluster.
          OSError, UnicodeError: the file cannot be read.
        """
        link = running.link
        file = PropertiesFile(link, path, self._blocking)
        properties = await file.read()
        told = without_effect(properties.unknown)
        if told:
            _log.warning(told, link=link.name, file=str(path))
        dial = await self._blocking.run(partial(self._dial, properties))
        cluster = ClassicCluster(nursery, dial, properties, rng=self._rng, tokens=running.tokens)
        metadata = await cluster.refresh([])
        if metadata.cluster_id != link.cluster_id:
            raise AnotherCluster(
                f"the brokers at {link.bootstrap_servers} belong to cluster"
                f" {metadata.cluster_id}, and the link is to {link.cluster_id}."
            )
        nursery.start_soon(file.watch, properties, lambda: cluster.is_login_refused)
        return cluster

    async def _sync_forever(self, sync: TopicSync, name: str) -> None:
        while True:
            if looks_after(
                name, self._coordinator.incarnation, candidates(self._coordinator.state)
            ):
                look = partial(self._look, sync, name)
                await self._upkeep.attempt("compare topics with the source", look, link=name)
            await trio.sleep(self._settings.sync_seconds)

    async def _look(self, sync: TopicSync, name: str) -> None:
        try:
            await sync.look()
        except ClassicError as error:
            _log.warning("the source's topics are not known", link=name, error=str(error))


def _first(error: Exception) -> Exception:
    """Return the first error of a group, which may hold groups."""
    found: object = error
    while isinstance(found, ExceptionGroup):
        found = cast("tuple[object, ...]", found.exceptions)[0]
    return cast("Exception", found)
