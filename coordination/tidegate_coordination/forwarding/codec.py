"""Proposals and their answers <-> bytes (msgpack), for the network and for the log.

A proposal is a map of its fields by name, so that a newer release may add fields with defaults; its
kind is the name of its class.  A row inside a proposal is an array.  If a field that was added to a
row has its default, the array ends before it.  An answer has the type that `decide` is declared to
return.  The fields that a class declares are its wire format, and test_forwarding_codec.py pins
them.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Final, cast, get_args, get_type_hints

import msgspec

from ..rules import (
    configs,
    draining,
    gateways,
    housekeeping,
    log_moves,
    metadata_versions,
    pipeline_reports,
    topics,
)
from ..rules.consumer_groups import groups, offset_expiry, offsets
from ..rules.migration import group_moves, mirrors, returns, switches
from ..rules.proposal import Proposal
from ..rules.records import deletions, inlining, producer_ids, segments, skips, wal
from ..rules.records.batch_outcomes import BatchFacts
from ..rules.security import acls, quotas, scram, tokens
from ..rules.transactions import ending, expiring, growing, initialising, staging

KINDS: Final[tuple[type[Any], ...]] = (
    configs.SetConfigs,
    gateways.Register,
    gateways.Renew,
    gateways.TellSettings,
    gateways.StartDraining,
    gateways.Leave,
    draining.DrainGateway,
    draining.ResumeGateway,
    draining.ReportDrained,
    gateways.ExpireGateways,
    gateways.TakeClaim,
    gateways.ReleaseClaim,
    groups.ChangeGroup,
    groups.DeleteGroup,
    groups.ForgetGroup,
    housekeeping.MoveLogStarts,
    housekeeping.ForgetObjects,
    log_moves.BeginLogMove,
    log_moves.OfferLog,
    log_moves.AnswerOffer,
    log_moves.SealLog,
    log_moves.CancelLogMove,
    metadata_versions.SetMetadataVersion,
    mirrors.SetLink,
    mirrors.RemoveLink,
    mirrors.MirrorTopics,
    mirrors.PlaceMirrors,
    switches.FenceTopics,
    switches.ReachFence,
    switches.LiftFence,
    switches.ReopenSource,
    switches.SwitchTopics,
    switches.FinishSwitches,
    returns.ReverseTopics,
    returns.NoteReversed,
    returns.EndReverse,
    returns.FenceReturn,
    returns.ReturnTopics,
    group_moves.FenceGroups,
    group_moves.ReachGroupFence,
    group_moves.UnfenceGroups,
    group_moves.MoveGroups,
    offset_expiry.ExpireOffsets,
    offsets.CommitOffsets,
    offsets.DeleteOffsets,
    pipeline_reports.ReportPipeline,
    producer_ids.ReserveProducerIds,
    producer_ids.ExpireProducers,
    segments.PublishSegments,
    segments.PublishCompaction,
    skips.SkipRuns,
    skips.EndSkips,
    topics.CreateTopics,
    topics.DeleteTopics,
    topics.CreatePartitions,
    deletions.DeleteRecords,
    wal.CommitWal,
    wal.AbandonWal,
    inlining.CommitInlined,
    inlining.MoveInlined,
    initialising.InitialiseTransactionalId,
    growing.GrowTransaction,
    staging.StageOffsets,
    ending.EndTransaction,
    ending.AbortTimedOut,
    ending.AbortTransaction,
    expiring.ExpireTransactionalIds,
    acls.CreateAcls,
    acls.DeleteAcls,
    scram.AlterScramCredentials,
    scram.SealScramCredentials,
    quotas.AlterClientQuotas,
    tokens.CreateToken,
    tokens.RenewToken,
    tokens.ExpireToken,
    tokens.RemoveExpiredTokens,
)

_INT32 = 2**31 - 1
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
encode: Final = msgspec.msgpack.Encoder().encode


class UnknownKind(Exception):
    """A proposal of a kind that this release does not know; another gateway may decide it."""


class Unreadable(ValueError):
    """Bytes that are not a proposal of their kind, or not an answer to one."""


class _Codec:
    """The wire format of one kind of proposal."""

    def __init__(self, kind: type[Any]) -> None:
        self.kind = kind
        self.fields = [each for each in dataclasses.fields(kind) if each.init]
        hints = get_type_hints(kind)
        shape = msgspec.defstruct(
            kind.__name__, [_field(each, hints[each.name]) for each in self.fields]
        )
        self.proposals = msgspec.msgpack.Decoder(shape)
        [answer] = get_args(get_type_hints(kind.decide)["return"])
        self.answers: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(answer)


def _field(field: dataclasses.Field[Any], hint: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    if field.default is not dataclasses.MISSING:
        return (field.name, hint, field.default)
    if field.default_factory is not dataclasses.MISSING:
        return (field.name, hint, msgspec.field(default_factory=field.default_factory))
    return (field.name, hint)


_CODECS: Final = {each.__name__: _Codec(each) for each in KINDS}


def kind_of(proposal: Proposal[Any]) -> str | None:
    """Return the name of a proposal's kind; None for one that is never sent."""
    name = type(proposal).__name__
    codec = _CODECS.get(name)
    return name if codec is not None and codec.kind is type(proposal) else None


def encode_proposal(proposal: Proposal[Any]) -> bytes:
    """Return the bytes of a proposal that has a kind."""
    fields = _CODECS[type(proposal).__name__].fields
    values = {each.name: getattr(proposal, each.name) for each in fields}
    if isinstance(proposal, wal.CommitWal):
        values["batches"] = [_batch(each) for each in proposal.batches]
    return encode(values)


def _batch(batch: BatchFacts) -> tuple[object, ...]:
    """Return the fields of a batch; without flags, if it has none.

    An older release, which may lead, cannot read a longer array.  Below the level of transactions
    no batch has flags.
    """
    return batch if batch.flags else batch[:-1]


def decode_proposal(kind: str, data: bytes) -> Proposal[Any]:
    """Return the proposal.

    Raises:
      UnknownKind, Unreadable: see there.
    """
    codec = _CODECS.get(kind)
    if codec is None:
        raise UnknownKind(kind)
    try:
        shape = codec.proposals.decode(data)
    except _DECODE_ERRORS as error:
        raise Unreadable(f"not a proposal of kind {kind}: {error}") from error
    values = {each.name: getattr(shape, each.name) for each in codec.fields}
    proposal = codec.kind(**values)
    if isinstance(proposal, wal.CommitWal | inlining.CommitInlined) and not all(
        map(_is_possible, proposal.batches)
    ):
        raise Unreadable("a batch has numbers that no WAL object can hold")
    return cast("Proposal[Any]", proposal)


def _is_possible(batch: BatchFacts) -> bool:
    """Whether the numbers of a batch fit into the columns of the state."""
    sizes = (batch.partition, batch.position, batch.length, batch.record_count)
    times = (batch.max_timestamp, batch.producer_id)
    return all(0 <= each <= _INT32 for each in sizes) and all(
        -1 << 63 <= t < 1 << 63 for t in times
    )


def decode_answer(kind: str, data: bytes) -> Any:
    """Return the answer to a proposal of a kind that is known.

    Raises:
      Unreadable: see there.
    """
    try:
        return _CODECS[kind].answers.decode(data)
    except _DECODE_ERRORS as error:
        raise Unreadable(f"not an answer to a proposal of kind {kind}: {error}") from error
