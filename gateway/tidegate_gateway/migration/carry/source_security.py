"""Reads the ACLs, client quotas and SCRAM users of a source.  Nothing changes there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import ClassicError, Refused, Unsupported
from tidegate_coordination.security.acls import Acl, Operation, PatternType, Permission
from tidegate_coordination.security.acls import ResourceType as Type
from tidegate_coordination.security.quota_checks import entity_of
from tidegate_coordination.security.quotas import QuotaEntity
from tidegate_coordination.state.security.scram import ScramMechanism
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tidegate_protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
)
from tidegate_protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)

Users = Mapping[str, Mapping[int, int]]
"""Iterations by user and mechanism."""


class NotShown(Exception):
    """The source does not show its ACLs, quotas or users.  The text is a sentence for a person."""


class SourceQuota(NamedTuple):
    """A quota of the source.  entity: as the source names it."""

    entity: tuple[tuple[str, str | None], ...]
    key: str
    value: float

    @property
    def own(self) -> QuotaEntity:
        """Return the entity of this cluster.

        Raises:
          QuotaRefused: such a quota cannot exist here.
        """
        return entity_of(self.entity)

    @property
    def text(self) -> str:
        """Return the entity for a person: `user alice, client-id (default)`."""
        return entity_text(self.entity)


def entity_text(parts: Iterable[tuple[str, str | None]]) -> str:
    """Return an entity of quotas for a person.  parts: types and names; None for a default."""
    return ", ".join(f"{kind} {name or '(default)'}" for kind, name in parts)


async def source_acls(source: ClassicCluster) -> list[Acl] | None:
    """Return all ACLs of the source; None if it has no authorizer.

    Raises:
      NotShown: the source does not say.
    """
    request = DescribeAclsRequest(
        Type.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY
    )
    response: DescribeAclsResponse = await _asked(source, "DescribeAcls", request, "ACLs", "2.0")
    if response.error_code == ErrorCode.SECURITY_DISABLED:
        return None
    _check("ACLs", Operation.DESCRIBE, response)
    return [
        Acl(
            resource.resource_type,
            resource.pattern_type,
            resource.resource_name,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for resource in response.resources
        for each in resource.acls
    ]


async def source_quotas(source: ClassicCluster) -> list[SourceQuota]:
    """Return all client quotas of the source.

    Raises:
      NotShown: the source does not say.
    """
    request = DescribeClientQuotasRequest([], strict=False)
    response: DescribeClientQuotasResponse = await _asked(
        source, "DescribeClientQuotas", request, "client quotas", "2.6"
    )
    _check("client quotas", Operation.DESCRIBE_CONFIGS, response)
    return [
        SourceQuota(_entity(entry.entity), each.key, each.value)
        for entry in response.entries or ()
        for each in entry.values
    ]


def _entity(parts: list[EntityData]) -> tuple[tuple[str, str | None], ...]:
    return tuple((each.entity_type, each.entity_name) for each in parts)


async def source_users(source: ClassicCluster) -> Users:
    """Return the iterations of each SCRAM user of the source by mechanism.  The source does not
    reveal keys.

    Raises:
      NotShown: the source does not say.
    """
    # An empty list also asks for all users.  Kafka 4.3.1 never answers a null list if the right is
    # missing.
    request = DescribeUserScramCredentialsRequest([])
    response: DescribeUserScramCredentialsResponse = await _asked(
        source, "DescribeUserScramCredentials", request, "SCRAM users", "2.7"
    )
    _check("SCRAM users", Operation.DESCRIBE, response)
    known = frozenset(ScramMechanism)
    return {
        result.user: {
            each.mechanism: each.iterations
            for each in result.credential_infos
            if each.mechanism in known
        }
        for result in response.results
        if not result.error_code
    }


async def _asked(source: ClassicCluster, name: str, request: Any, what: str, since: str) -> Any:
    """Ask any broker.  since: the release of Kafka that answers first."""
    try:
        return await source.call_any(name, request)
    except Unsupported:
        text = f"the source does not show its {what}: that takes Kafka {since} or newer"
        raise NotShown(text) from None
    except ClassicError as error:
        raise NotShown(str(error)) from None


def _check(what: str, needed: Operation, response: Any) -> None:
    code = response.error_code
    if code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        raise NotShown(
            f"the source does not show its {what}: give the link's principal {needed.name} of the"
            " cluster there"
        )
    if code:
        raise NotShown(str(Refused(f"the {what} of the source", code)))
