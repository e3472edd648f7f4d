"""The lab of scenarios: brokers to measure, cases alternating between them, and progress."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from rich.console import Console

from .brokers import worlds
from .brokers.stores import Store, open_store
from .brokers.worlds import Gateway, Through, World
from .clients import topics, workers
from .clients.spec import Produce, Read, Spec, Told
from .measure import samples
from .measure.figures import Observation, Spread, figures_of, spreads_of
from .measure.table import Row, ratio_row
from .options import Options

_WARM_PARTITIONS = 16
_WARM_BATCH_BYTES = (1_000_000, 16_384)


@dataclass(frozen=True, slots=True)
class Case:
    """One case to measure.  prepare: called once a broker; measure: once a run."""

    label: str
    prepare: Callable[[World], None]
    measure: Callable[[World], Observation]


@dataclass(slots=True)
class Lab:
    """The brokers of one run of the command; progress goes to the console.

    rows: of all contests so far; they are printed even if a later contest fails.
    """

    options: Options
    console: Console
    stack: ExitStack
    rows: list[Row] = field(default_factory=list[Row], init=False)
    _kafka: World | None = field(default=None, init=False)
    _store: Store | None = field(default=None, init=False)

    @contextmanager
    def worlds(
        self, settings: Mapping[str, str] | None = None, *, through: Through | None = None
    ) -> Generator[list[World]]:
        """Yield a gateway that has just been started, or the broker of --bootstrap.

        Apache Kafka, warmed up, follows if the options ask for it.
        """
        asked = self.options
        if asked.bootstrap is not None:
            yield [worlds.external(asked.bootstrap, asked.pid, asked.metrics_url), *self.rivals()]
            return
        rivals = self.rivals()
        with self.gateway(settings, through=through) as gateway:
            yield [gateway.world, *rivals]

    @contextmanager
    def gateway(
        self, settings: Mapping[str, str] | None = None, *, through: Through | None = None
    ) -> Generator[Gateway]:
        """Run a gateway of our own; --set wins over settings."""
        merged = {**(settings or {}), **self.options.settings}
        asked = self.options
        with worlds.gateway(
            self.store, asked.log, merged, through=through, processes=asked.processes
        ) as gateway:
            yield gateway

    @property
    def store(self) -> Store:
        """Return the store of our own gateways, started at the first call."""
        if self._store is None:
            self.say(f"store: {self.options.store}")
            self._store = self.stack.enter_context(open_store(self.options.store))
        return self._store

    def say(self, text: str) -> None:
        """Show progress."""
        self.console.print(f"[dim]{text}[/dim]", highlight=False)

    def contest(self, brokers: Sequence[World], case: Case) -> list[Row]:
        """Measure a case at all brokers in turns: A B A B."""
        seen: list[list[Observation]] = [[] for _ in brokers]
        for broker in brokers:
            self.say(f"{case.label}: {broker.name} warms up")
            case.prepare(broker)
        for run in range(self.options.lengths.runs):
            for broker, observations in zip(brokers, seen, strict=True):
                observation = case.measure(broker)
                observations.append(observation)
                self.say(f"{case.label}: {broker.name} run {run + 1}: {_brief(observation)}")
        rows = rows_of(case.label, [broker.name for broker in brokers], seen)
        self.rows += rows
        return rows

    def rivals(self) -> list[World]:
        """Return Apache Kafka, started and warm, if the options ask for it."""
        if not self.options.vs_kafka:
            return []
        if self._kafka is None:
            self.say("starting Apache Kafka")
            self._kafka = self.stack.enter_context(worlds.kafka(self.options.processes))
            self._warm(self._kafka)
        return [self._kafka]

    def _warm(self, broker: World) -> None:
        """Give a JVM enough work that it has compiled the relevant code."""
        amount = self.options.lengths.jvm_bytes
        self.say(f"warming Apache Kafka with {amount / 1e9:.1f} GB")
        for batch_bytes in _WARM_BATCH_BYTES:
            with new_topic([broker], _WARM_PARTITIONS) as topic:
                spec = Produce(
                    broker.bootstrap, topic, _WARM_PARTITIONS, batch_bytes, amount // 2, 120.0
                )
                _ = workers.run([spec])
                read = Read(
                    broker.bootstrap, topic, _WARM_PARTITIONS, 2, amount // 2, 30.0, from_start=True
                )
                _ = workers.run([read])


def rows_of(label: str, names: Sequence[str], seen: Sequence[Sequence[Observation]]) -> list[Row]:
    """Return a row for each broker, and a row with the ratio if there are two."""
    spreads: list[dict[str, Spread]] = [
        spreads_of([figures_of(each) for each in runs]) for runs in seen
    ]
    rows = [Row(label, name, each) for name, each in zip(names, spreads, strict=True)]
    if len(spreads) == 2:
        rows.append(ratio_row(label, *spreads))
    return rows


@contextmanager
def new_topic(
    brokers: Sequence[World], partitions: int, settings: Mapping[str, str] | None = None
) -> Generator[str]:
    """Make a topic at all brokers; it is deleted at the end."""
    name = f"bench-{secrets.token_hex(4)}"
    for broker in brokers:
        topics.create(broker.bootstrap, name, partitions, settings or {})
    try:
        yield name
    finally:
        for broker in brokers:
            topics.delete(broker.bootstrap, name)


def measured(broker: World, specs: Sequence[Spec]) -> tuple[Observation, list[Told]]:
    """Run clients to their ends; add up their payloads, and take the time of the slowest one."""
    with workers.ready(specs) as clients:
        before = samples.look(broker.eyes, first=True)
        for client in clients:
            client.go()
        told = [client.told() for client in clients]
        after = samples.look(broker.eyes, first=False)
    observation = samples.between(
        broker.eyes,
        before,
        after,
        payload_bytes=sum(each.get("payload_bytes", 0) for each in told),
        seconds=max(each.get("seconds", 0.0) for each in told),
    )
    return observation, told


def _brief(seen: Observation) -> str:
    figures = figures_of(seen)
    return ", ".join(f"{value:.2f} {name}" for name, value in list(figures.items())[:3])
