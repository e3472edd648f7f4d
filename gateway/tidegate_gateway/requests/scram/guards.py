"""Guards of the APIs of SCRAM credentials: one right on the cluster for the whole request."""

from __future__ import annotations

from typing import Final

from tidegate_coordination.security.acls import Operation
from tidegate_protocol.error_codes import ErrorCode, error_text
from tidegate_protocol.messages import alter_user_scram_credentials, describe_user_scram_credentials

from ...security.guard import whole

_DENIED: Final = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
_TEXT: Final = error_text(_DENIED)


def _no_credentials_shown(
    request: describe_user_scram_credentials.DescribeUserScramCredentialsRequest, _version: int
) -> describe_user_scram_credentials.DescribeUserScramCredentialsResponse:
    answer_of = describe_user_scram_credentials.DescribeUserScramCredentialsResult
    return describe_user_scram_credentials.DescribeUserScramCredentialsResponse(
        error_code=_DENIED,
        error_message=_TEXT,
        results=[answer_of("", _DENIED, _TEXT) for _ in request.users or ()],
    )


def _no_credentials_altered(
    request: alter_user_scram_credentials.AlterUserScramCredentialsRequest, _version: int
) -> alter_user_scram_credentials.AlterUserScramCredentialsResponse:
    users = dict.fromkeys(each.name for each in request.deletions)
    users |= dict.fromkeys(each.name for each in request.upsertions)
    answer_of = alter_user_scram_credentials.AlterUserScramCredentialsResult
    return alter_user_scram_credentials.AlterUserScramCredentialsResponse(
        results=[answer_of(each, _DENIED, _TEXT) for each in users]
    )


guard_describe_user_scram_credentials: Final = whole(Operation.DESCRIBE, _no_credentials_shown)
guard_alter_user_scram_credentials: Final = whole(Operation.ALTER, _no_credentials_altered)
