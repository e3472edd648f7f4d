"""DescribeAcls, CreateAcls, DeleteAcls: versions 1-3, without an authorizer.

Tidegate has no authorizer yet, so all requests get SECURITY_DISABLED, whatever they ask for, as in
Kafka without one.  Tools know that answer: MirrorMaker 2 continues without ACLs, but logs an error
at every round if the API is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

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

_CODE: Final = ErrorCode.SECURITY_DISABLED
_TEXT: Final = "This cluster has no authorizer, so it has no ACLs."


@dataclass(frozen=True, slots=True)
class DescribeAclsHandler:
    """See the module's head."""

    api_key: ClassVar[int] = ApiKey.DESCRIBE_ACLS
    messages: ClassVar[ModuleType] = describe_acls

    async def handle(self, call: Call, request: DescribeAclsRequest) -> DescribeAclsResponse:
        """Refuse."""
        return DescribeAclsResponse(error_code=_CODE, error_message=_TEXT)


@dataclass(frozen=True, slots=True)
class CreateAclsHandler:
    """See the module's head."""

    api_key: ClassVar[int] = ApiKey.CREATE_ACLS
    messages: ClassVar[ModuleType] = create_acls

    async def handle(self, call: Call, request: CreateAclsRequest) -> CreateAclsResponse:
        """Refuse each."""
        return CreateAclsResponse(
            results=[AclCreationResult(_CODE, _TEXT)] * len(request.creations)
        )


@dataclass(frozen=True, slots=True)
class DeleteAclsHandler:
    """See the module's head."""

    api_key: ClassVar[int] = ApiKey.DELETE_ACLS
    messages: ClassVar[ModuleType] = delete_acls

    async def handle(self, call: Call, request: DeleteAclsRequest) -> DeleteAclsResponse:
        """Refuse each."""
        refused = DeleteAclsFilterResult(_CODE, _TEXT)
        return DeleteAclsResponse(filter_results=[refused] * len(request.filters))
