"""DescribeClientQuotas and AlterClientQuotas: versions 0-1 (KIP-546).

The parts and quotas of an entity have the same order as in Kafka's answers, where it comes from
hash tables: clients compare whole answers.

Differs from Kafka: an entity that a request names twice does not change, while Kafka changes it and
answers an error.  ip entities are addresses, not host names.  A long request is made in several
changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.rules.security.acls import SECURITY_NOT_YET
from tidegate_coordination.rules.security.parts import parts
from tidegate_coordination.rules.security.quotas import AlterClientQuotas, QuotaRefusal, size_bytes
from tidegate_coordination.security.quota_checks import (
    EntityFilter,
    QuotaRefused,
    check_value,
    entity_of,
    filter_of,
)
from tidegate_coordination.security.quotas import EntityType, QuotaChange, QuotaEntity, QuotaKey
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import alter_client_quotas as alter_wire
from tidegate_protocol.messages import describe_client_quotas as describe_wire
from tidegate_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntityData,
    AlterClientQuotasResponseEntryData,
    OpData,
)
from tidegate_protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

from ...network.call import Call
from ...network.turns import Turns

_KEYS: Final = frozenset(QuotaKey)
_PARTS: Final[Sequence[str]] = (EntityType.CLIENT_ID, EntityType.USER, EntityType.IP)
_ORDER: Final[Sequence[str]] = (
    QuotaKey.FETCH,
    QuotaKey.MUTATION,
    QuotaKey.REQUEST,
    QuotaKey.PRODUCE,
    QuotaKey.CONNECTION,
)
_ORDER_OF_FOUR: Final[Sequence[str]] = (
    QuotaKey.PRODUCE,
    QuotaKey.FETCH,
    QuotaKey.MUTATION,
    QuotaKey.REQUEST,
)
_SMALL: Final = 3
"""More than three quotas are in a larger hash table of Kafka's."""
_CODES: Final = {
    QuotaRefusal.NOT_YET: ErrorCode.UNSUPPORTED_VERSION,
    QuotaRefusal.IMPOSSIBLE: ErrorCode.INVALID_REQUEST,
    QuotaRefusal.TOO_LARGE: ErrorCode.INVALID_REQUEST,
}


@dataclass(frozen=True, slots=True)
class DescribeClientQuotasHandler:
    """Answers DescribeClientQuotas requests."""

    coordinator: Coordinator
    api_key: ClassVar[int] = ApiKey.DESCRIBE_CLIENT_QUOTAS
    messages: ClassVar[ModuleType] = describe_wire

    async def handle(
        self, call: Call, request: DescribeClientQuotasRequest
    ) -> DescribeClientQuotasResponse:
        """Return all entities that the filter matches, as of one moment."""
        components = [
            (each.entity_type, each.match_type, each.match) for each in request.components
        ]
        try:
            wanted = filter_of(components, is_strict=request.strict)
        except QuotaRefused as refused:
            is_unknown = refused.is_unknown_type
            code = ErrorCode.UNSUPPORTED_VERSION if is_unknown else ErrorCode.INVALID_REQUEST
            return DescribeClientQuotasResponse(0, code, str(refused), None)
        await self.coordinator.catch_up()
        # Kafka's text for success is empty here, and null in AlterClientQuotas.
        return DescribeClientQuotasResponse(0, ErrorCode.NONE, "", await self._entries(wanted))

    async def _entries(self, wanted: EntityFilter) -> list[EntryData]:
        turns = Turns()
        entries: list[EntryData] = []
        for entity, quotas in self.coordinator.state.quotas.copied().items():
            if wanted.matches(entity):
                entries.append(
                    EntryData(
                        [EntityData(kind, name or None) for kind, name in _parts(entity)],
                        [ValueData(key, quotas[key]) for key in _in_order(quotas)],
                    )
                )
            await turns.count()
        return entries


@dataclass(slots=True)
class _Entry:
    """An entry of a request, its changes if it is valid, and its error if not."""

    sent: AlterClientQuotasRequestEntryData
    changes: list[QuotaChange]
    code: ErrorCode = ErrorCode.NONE
    text: str | None = None

    def refuse(self, text: str, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        self.changes, self.code, self.text = [], code, text

    @property
    def size_bytes(self) -> int:
        return sum(map(size_bytes, self.changes))

    def answer(self) -> AlterClientQuotasResponseEntryData:
        named = [
            AlterClientQuotasResponseEntityData(each.entity_type, each.entity_name)
            for each in sorted(self.sent.entity, key=lambda each: _place(each.entity_type))
        ]
        return AlterClientQuotasResponseEntryData(self.code, self.text, named)


@dataclass(frozen=True, slots=True)
class AlterClientQuotasHandler:
    """Answers AlterClientQuotas requests."""

    coordinator: Coordinator
    api_key: ClassVar[int] = ApiKey.ALTER_CLIENT_QUOTAS
    messages: ClassVar[ModuleType] = alter_wire

    async def handle(
        self, call: Call, request: AlterClientQuotasRequest
    ) -> AlterClientQuotasResponse:
        """Answer for each entity; either all quotas of an entity change, or none.

        Raises:
          CoordinatorUnavailable: the outcome is unknown.
        """
        turns = Turns()
        entries: list[_Entry] = []
        for each in request.entries:
            entries.append(_checked(each))
            await turns.count(1 + len(each.ops))
        await _refuse_repeated(entries, turns)
        sound = [each for each in entries if each.changes]
        for part in parts(sound, lambda each: each.size_bytes):
            await self._alter(part, only_checks=request.validate_only)
        return AlterClientQuotasResponse(0, [each.answer() for each in entries])

    async def _alter(self, part: list[_Entry], *, only_checks: bool) -> None:
        changes = [change for each in part for change in each.changes]
        try:
            refusal = await self.coordinator.propose(
                AlterClientQuotas(changes, only_checks=only_checks)
            )
        except ProposalFailed as failure:
            for each in part:
                each.refuse(f"Nothing was changed: {failure}")
            return
        if refusal is not None:
            is_early = refusal is QuotaRefusal.NOT_YET
            text = SECURITY_NOT_YET if is_early else refusal.value
            for each in part:
                each.refuse(text, _CODES[refusal])


def _parts(entity: QuotaEntity) -> list[tuple[EntityType, str]]:
    return sorted(entity.parts(), key=lambda part: _place(part[0]))


def _place(kind: str) -> int:
    """Return the place of an entity type in the order; unknown types come last."""
    return _PARTS.index(kind) if kind in _PARTS else len(_PARTS)


def _in_order(quotas: Collection[str]) -> list[str]:
    """Return the keys of an entity's quotas in the order of Kafka's answers."""
    order = _ORDER_OF_FOUR if len(quotas) > _SMALL else _ORDER
    return sorted(quotas, key=lambda key: order.index(key) if key in order else len(order))


def _checked(sent: AlterClientQuotasRequestEntryData) -> _Entry:
    entry = _Entry(sent, [])
    try:
        entity = entity_of((each.entity_type, each.entity_name) for each in sent.entity)
        entry.changes = list(_changes(entity, sent.ops))
    except QuotaRefused as refused:
        entry.refuse(str(refused))
    return entry


def _changes(entity: QuotaEntity, ops: list[OpData]) -> Iterator[QuotaChange]:
    """Yield the changes of an entity; the removal of a quota that cannot exist changes nothing.

    Raises:
      QuotaRefused: one of the changes is wrong.
    """
    keys = [each.key for each in ops]
    if len(set(keys)) < len(keys):
        raise QuotaRefused(_repeated(entity))
    for each in ops:
        if not each.remove:
            check_value(entity, each.key, each.value)
        if each.key in _KEYS:
            yield QuotaChange(entity, each.key, None if each.remove else each.value)


async def _refuse_repeated(entries: list[_Entry], turns: Turns) -> None:
    """Refuse the entities that a request changes twice."""
    counts = Counter[QuotaEntity]()
    for each in entries:
        if each.changes:
            counts[each.changes[0].entity] += 1
        await turns.count()
    for each in entries:
        if each.changes and counts[each.changes[0].entity] > 1:
            each.refuse(_repeated(each.changes[0].entity))
        await turns.count()


def _repeated(entity: QuotaEntity) -> str:
    """Return Kafka's text for a repeated entity, or for an entity with a repeated key."""
    named = ", ".join(f"{kind}={name or None}" for kind, name in _parts(entity))
    return f"Ignoring duplicate entity ClientQuotaEntity(entries={{{named}}})".replace(
        "=None", "=null"
    )
