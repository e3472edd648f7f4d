"""Guards of the APIs of delegation tokens (KIP-373).

To renew a token takes no ACL: its owner and its renewers may.  The handler leaves out the tokens
that a client may not see, since a token's requester is in no answer before version 3.
"""

from __future__ import annotations

from tidegate_coordination.security.acls import Operation, ResourceType
from tidegate_coordination.security.tokens import DelegationToken
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.create_delegation_token import CreateDelegationTokenRequest

from ...network.call import Rights
from ...security.guard import Caller, Guarding
from .answers import owner_of, refused_creation


def guard_create_delegation_token(
    caller: Caller, request: CreateDelegationTokenRequest
) -> Guarding:
    """CREATE_TOKENS of the owner, if that is another one."""
    principal = caller.rights.principal
    owner = owner_of(request, principal)
    # A client that may not ask about tokens at all gets the handler's refusal.
    needs_right = caller.may_have_tokens and owner != principal
    may = caller.rights.may
    if needs_right and not may(Operation.CREATE_TOKENS, ResourceType.USER, owner):
        code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        return refused_creation(request, principal, code, caller.version)
    return (yield request)


def sees_token(principal: str, rights: Rights | None, token: DelegationToken) -> bool:
    """Return whether an answer may show a token: one's own, and those that one created or may
    renew.  For others DESCRIBE of the token is needed, or DESCRIBE_TOKENS of its owner.

    rights: None without an authorizer.
    """
    if rights is None or principal in token.principals:
        return True
    sees = rights.sees
    return sees(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id) or sees(
        Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner
    )
