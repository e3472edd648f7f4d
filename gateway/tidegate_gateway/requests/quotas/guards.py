"""Guards of the APIs of client quotas: one right on the cluster for the whole request."""

from __future__ import annotations

from typing import Final

from tidegate_coordination.security.acls import Operation
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import alter_client_quotas, describe_client_quotas

from ...security.guard import denied_whole, whole

_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TEXT: Final = error_text(_DENIED)


def _no_quotas_shown(
    _request: object, _version: int
) -> describe_client_quotas.DescribeClientQuotasResponse:
    return describe_client_quotas.DescribeClientQuotasResponse(
        error_code=_DENIED, error_message=_TEXT, entries=None
    )


guard_describe_client_quotas: Final = whole(Operation.DESCRIBE_CONFIGS, _no_quotas_shown)
guard_alter_client_quotas: Final = whole(Operation.ALTER_CONFIGS, denied_whole(alter_client_quotas))
