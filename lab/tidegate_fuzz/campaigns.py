"""The targets by name, and running one of them in this process."""

from __future__ import annotations

import gc
import hashlib
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

from tidegate_runtime.collector import calm_collector

from .cover import Marks, watch
from .engine import Campaign, Finding, Tally, Target, minimised

# The memory that a campaign's process may map, so that a bomb raises MemoryError, a finding.
MAX_ADDRESS_BYTES: Final = 3 << 30


@dataclass(frozen=True, slots=True)
class Known:
    """A target: its class, as module and name in this package, and the code it measures."""

    module: str
    name: str
    watched: tuple[str, ...]


CONNECTION: Final = "connection"
TRANSACTIONS: Final = "transactions"

TARGETS: Final = {
    "codec": Known(
        "wire_targets",
        "CodecTarget",
        ("tidegate_protocol.messages", "tidegate_protocol.primitives"),
    ),
    "plain-produce": Known(
        "plain_target", "PlainProduceTarget", ("tidegate_protocol.plain_produce",)
    ),
    "headers": Known(
        "wire_targets",
        "HeadersTarget",
        (
            "tidegate_protocol.headers",
            "tidegate_protocol.frames",
        ),
    ),
    "consumer-protocol": Known(
        "wire_targets",
        "ConsumerProtocolTarget",
        (
            "tidegate_protocol.consumer_protocol",
            "tidegate_protocol.messages.consumer_protocol_subscription",
            "tidegate_protocol.messages.consumer_protocol_assignment",
        ),
    ),
    "batches": Known(
        "record_targets",
        "BatchesTarget",
        (
            "tidegate_protocol.batches",
            "tidegate_protocol.records",
            "tidegate_protocol.compression",
            "tidegate_gateway.produce.record_checks",
        ),
    ),
    "records": Known(
        "record_targets",
        "RecordsTarget",
        (
            "tidegate_protocol.records",
            "tidegate_protocol.batch_walk",
            "tidegate_pipeline.tasks.record_spans",
        ),
    ),
    "compression": Known("record_targets", "CompressionTarget", ("tidegate_protocol.compression",)),
    "wal": Known(
        "object_targets",
        "WalTarget",
        ("tidegate_storage.objects.wal_format", "tidegate_storage.objects.wal_reader"),
    ),
    "runs": Known(
        "object_targets",
        "RunsTarget",
        ("tidegate_gateway.fetch.prepared_runs", "tidegate_storage.objects.prepared_runs"),
    ),
    "segments": Known(
        "segment_target",
        "SegmentTarget",
        ("tidegate_storage.objects.segment_format", "tidegate_storage.objects.prepared_runs"),
    ),
    "entries": Known("object_targets", "EntriesTarget", ("tidegate_coordination.events.entries",)),
    "fold": Known("object_targets", "FoldTarget", ("tidegate_coordination.state",)),
    "snapshots": Known(
        "object_targets", "SnapshotsTarget", ("tidegate_coordination.log.snapshots",)
    ),
    "logins": Known("login_targets", "LoginsTarget", ("tidegate_gateway.security.sasl",)),
    "tokens": Known("login_targets", "TokensTarget", ("tidegate_gateway.security.oauth",)),
    "pushed-metrics": Known(
        "telemetry_target",
        "PushedMetricsTarget",
        ("tidegate_gateway.telemetry.otlp", "tidegate_gateway.telemetry.client_values"),
    ),
    "groups": Known("group_target", "GroupsTarget", ("tidegate_coordination.groups",)),
    CONNECTION: Known(
        "connection_target",
        "ConnectionTarget",
        (
            "tidegate_gateway",
            "tidegate_coordination",
            "tidegate_protocol.batches",
            "tidegate_protocol.records",
            "tidegate_protocol.headers",
            "tidegate_protocol.frames",
        ),
    ),
    TRANSACTIONS: Known(
        "connection_target",
        "TransactionsTarget",
        (
            "tidegate_gateway.requests.transactions",
            "tidegate_gateway.transactions",
            "tidegate_gateway.requests.records",
            "tidegate_gateway.fetch",
            "tidegate_coordination.rules.transactions",
            "tidegate_coordination.rules.records",
            "tidegate_coordination.rules.transaction_overlay",
            "tidegate_coordination.state",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Order:
    """The work of a process.  corpus: a folder of inputs, which also gets the new ones."""

    target: str
    seed: int = 1
    executions: int | None = None
    seconds: float | None = None
    corpus: Path | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of an order."""

    order: Order
    tally: Tally
    marks: Marks
    findings: list[Finding]


def run(order: Order) -> Outcome:
    """Run an order.  Its target's modules must not have been imported yet."""
    known = TARGETS[order.target]
    marks = watch(known.watched)
    bound_memory()
    gc.disable()  # it would scan the syntax trees of all measured modules repeatedly
    if order.target in (CONNECTION, TRANSACTIONS):
        return _run_connections(order, marks)
    target = made(known)
    calm_collector()
    campaign = Campaign(target, marks, order.seed, stored(order.corpus))
    tally = campaign.run(_until(order))
    if order.corpus is not None:
        _store(order.corpus, campaign.chooser.grown)
    return Outcome(
        order, tally, marks, [minimised(target, each) for each in tally.findings.values()]
    )


def _run_connections(order: Order, marks: Marks) -> Outcome:
    """Run an order for whole connections; import the gateway only now, so that it is measured."""
    module = import_module("tidegate_fuzz.connection_target")
    target = made(TARGETS[order.target])
    calm_collector()
    gc.enable()
    campaign = module.ConnectionCampaign(marks, order.seed, stored(order.corpus), target)
    tally: Tally = campaign.run(_until(order))
    if order.corpus is not None:
        _store(order.corpus, campaign.chooser.grown)
    return Outcome(order, tally, marks, list(tally.findings.values()))


def made(known: Known) -> Target:
    """Return a target; imports the measured modules."""
    target: Target = getattr(import_module(f"tidegate_fuzz.{known.module}"), known.name)()
    return target


def bound_memory() -> None:
    """Let this process map no more than MAX_ADDRESS_BYTES."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (MAX_ADDRESS_BYTES, hard))


def _until(order: Order) -> Callable[[int], bool]:
    limit, seconds = order.executions, order.seconds
    if seconds is None:
        return lambda executions: limit is None or executions < limit
    end = time.monotonic() + seconds
    return lambda executions: (limit is None or executions < limit) and time.monotonic() < end


def stored(corpus: Path | None) -> list[bytes]:
    """Return the inputs of a folder, sorted by name."""
    if corpus is None or not corpus.is_dir():
        return []
    return [each.read_bytes() for each in sorted(corpus.iterdir())]


def _store(corpus: Path, inputs: list[bytes]) -> None:
    corpus.mkdir(parents=True, exist_ok=True)
    for each in inputs:
        (corpus / hashlib.sha256(each).hexdigest()[:16]).write_bytes(each)
