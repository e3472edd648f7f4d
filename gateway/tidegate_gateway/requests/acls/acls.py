"""DescribeAcls, CreateAcls, DeleteAcls: versions 1-3.

Without an authorizer all requests get SECURITY_DISABLED, whatever they ask for, as in Kafka.  Tools
handle this answer.  MirrorMaker 2, for example, continues without ACLs; if the API were missing, it
would log an error in every round.  Dispatch has already refused clients without the right.

Differs from Kafka: a request with a number 0 (UNKNOWN), for which Kafka closes the connection, gets
INVALID_REQUEST.  An ACL with the number of ANY or MATCH gets the same error; Kafka answers the
whole request with UNKNOWN_SERVER_ERROR.  A long request changes ACLs by several log entries.  If it
fails in between, some ACLs have changed, and the client can repeat it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.events.metadata_versions import SECURITY
from tidegate_coordination.rules.security.acls import (
    MAX_LOOKS,
    MAX_REMOVED,
    AclRefusal,
    CreateAcls,
    DeleteAcls,
)
from tidegate_coordination.rules.security.parts import parts
from tidegate_coordination.security.acls import Acl, AclFilter
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import create_acls, delete_acls, describe_acls
from tidegate_protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from tidegate_protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidegate_protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

from ...network.call import Call
from .acl_rows import (
    Resources,
    acl_of,
    error_of,
    filter_of,
    has_zero,
    misfit,
    removed_row,
    unknown_part,
)

MAX_ADDED: Final = 10_000
"""New ACLs in one request; Kafka has the same bound."""
_DISABLED: Final = ErrorCode.SECURITY_DISABLED
_NO_AUTHORIZER: Final = "This cluster has no authorizer, so it has no ACLs."
_ROWS_A_TURN: Final = 500


@dataclass(frozen=True, slots=True)
class DescribeAclsHandler:
    """has_authorizer: see the module's head."""

    coordinator: Coordinator
    has_authorizer: bool
    api_key: ClassVar[int] = ApiKey.DESCRIBE_ACLS
    messages: ClassVar[ModuleType] = describe_acls

    async def handle(self, call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse:
        """List the ACLs that the filter matches, by resource."""
        wanted = filter_of(request)
        if not self.has_authorizer:
            return DescribeAclsResponse(error_code=_DISABLED, error_message=_NO_AUTHORIZER)
        if has_zero(wanted):
            code, text = ErrorCode.INVALID_REQUEST, unknown_part(wanted)
            return DescribeAclsResponse(error_code=code, error_message=text)
        await self.coordinator.catch_up()
        if self.coordinator.state.metadata_version < SECURITY:
            code, text = error_of(AclRefusal.NOT_YET)
            return DescribeAclsResponse(error_code=code, error_message=text)
        return DescribeAclsResponse(resources=(await self._matching(wanted)).rows)

    async def _matching(self, wanted: AclFilter) -> Resources:
        """Return the ACLs that match now, in turns, since there may be very many."""
        candidates = list(self.coordinator.state.acls.candidates(wanted))
        resources = Resources()
        for first in range(0, len(candidates), _ROWS_A_TURN):
            some = candidates[first : first + _ROWS_A_TURN]
            resources.add(each for each in some if wanted.matches(each))
            await trio.lowlevel.checkpoint()
        return resources


@dataclass(frozen=True, slots=True)
class CreateAclsHandler:
    """has_authorizer: see the module's head."""

    coordinator: Coordinator
    has_authorizer: bool
    api_key: ClassVar[int] = ApiKey.CREATE_ACLS
    messages: ClassVar[ModuleType] = create_acls

    async def handle(self, call: Call, request: CreateAclsRequest) -> CreateAclsResponse:
        """Answer for each ACL; an existing ACL is no error."""
        if not self.has_authorizer:
            refused = AclCreationResult(_DISABLED, _NO_AUTHORIZER)
            return CreateAclsResponse(results=[refused] * len(request.creations))
        acls = [acl_of(each) for each in request.creations]
        results = await _misfits(acls)
        results |= await self._add([each for each in dict.fromkeys(acls) if each not in results])
        return CreateAclsResponse(results=[results[each] for each in acls])

    async def _add(self, acls: Sequence[Acl]) -> dict[Acl, AclCreationResult]:
        present = self.coordinator.state.acls
        if sum(each not in present for each in acls) > MAX_ADDED:
            refused = AclCreationResult(*error_of(AclRefusal.TOO_LARGE))
            return dict.fromkeys(acls, refused)
        results: dict[Acl, AclCreationResult] = {}
        for part in parts(acls, lambda each: each.size_bytes):
            results |= dict.fromkeys(part, await self._add_part(part))
        return results

    async def _add_part(self, acls: Sequence[Acl]) -> AclCreationResult:
        try:
            refusal = await self.coordinator.propose(CreateAcls(acls))
        except ProposalFailed as failure:
            text = f"It was not added: {failure}"
            return AclCreationResult(ErrorCode.UNKNOWN_SERVER_ERROR, text)
        return AclCreationResult(*error_of(refusal)) if refusal else AclCreationResult()


async def _misfits(acls: Sequence[Acl]) -> dict[Acl, AclCreationResult]:
    """Return the results of invalid ACLs, in turns."""
    results: dict[Acl, AclCreationResult] = {}
    for number, each in enumerate(acls):
        if text := misfit(each):
            results[each] = AclCreationResult(ErrorCode.INVALID_REQUEST, text)
        if number % _ROWS_A_TURN == 0:
            await trio.lowlevel.checkpoint()
    return results


@dataclass(frozen=True, slots=True)
class DeleteAclsHandler:
    """has_authorizer: see the module's head."""

    coordinator: Coordinator
    has_authorizer: bool
    api_key: ClassVar[int] = ApiKey.DELETE_ACLS
    messages: ClassVar[ModuleType] = delete_acls

    async def handle(self, call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse:
        """Answer for each filter, with the removed ACLs."""
        if not self.has_authorizer:
            refused = DeleteAclsFilterResult(_DISABLED, _NO_AUTHORIZER)
            return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
        filters = [filter_of(each) for each in request.filters]
        results = [_begun(each) for each in filters]
        valid = [
            (wanted, result)
            for wanted, result in zip(filters, results, strict=True)
            if not result.error_code
        ]
        found = await self._found(valid)
        if isinstance(found, AclRefusal):
            _fail([result for _, result in valid], *error_of(found))
        else:
            for part in parts(list(found), lambda each: 2 * each.size_bytes):
                await self._remove({each: found[each] for each in part})
        return DeleteAclsResponse(filter_results=results)

    async def _found(
        self, wanted: Sequence[tuple[AclFilter, DeleteAclsFilterResult]]
    ) -> dict[Acl, list[DeleteAclsFilterResult]] | AclRefusal:
        """Return the ACLs that filters match, each with the results that must name it.

        The search runs here, in turns, since a proposal is decided in one step.  The proposal then
        names each ACL.  An ACL that is added meanwhile may stay, as if it came after the request.
        """
        if not wanted:
            return {}
        await self.coordinator.catch_up()
        if self.coordinator.state.metadata_version < SECURITY:
            return AclRefusal.NOT_YET
        found: dict[Acl, list[DeleteAclsFilterResult]] = {}
        looks = 0
        for number, (each, result) in enumerate(wanted):
            candidates = list(self.coordinator.state.acls.candidates(each))
            looks += len(candidates)
            if number and looks > MAX_LOOKS:
                return AclRefusal.TOO_MUCH_WORK
            for first in range(0, len(candidates), _ROWS_A_TURN):
                some = candidates[first : first + _ROWS_A_TURN]
                for acl in filter(each.matches, some):
                    found.setdefault(acl, []).append(result)
                if len(found) > MAX_REMOVED:
                    return AclRefusal.TOO_MANY
                await trio.lowlevel.checkpoint()
        return found

    async def _remove(self, wanted: Mapping[Acl, list[DeleteAclsFilterResult]]) -> None:
        """Remove ACLs, and write the outcome into the results."""
        proposal = DeleteAcls([AclFilter.of_one(each) for each in wanted])
        concerned = [each for results in wanted.values() for each in results]
        try:
            answer = await self.coordinator.propose(proposal)
        except ProposalFailed as failure:
            text = f"Not all were removed: {failure}"
            return _fail(concerned, ErrorCode.UNKNOWN_SERVER_ERROR, text)
        if isinstance(answer, AclRefusal):
            return _fail(concerned, *error_of(answer))
        assert answer.is_all, "a part fits an entry"
        for each in answer.acls:
            for result in wanted[each]:
                result.matching_acls.append(removed_row(each))
        return None


def _begun(wanted: AclFilter) -> DeleteAclsFilterResult:
    if text := unknown_part(wanted):
        return DeleteAclsFilterResult(ErrorCode.INVALID_REQUEST, text)
    return DeleteAclsFilterResult(ErrorCode.NONE, None)


def _fail(results: Sequence[DeleteAclsFilterResult], code: ErrorCode, text: str) -> None:
    for each in results:
        each.error_code, each.error_message = code, text
