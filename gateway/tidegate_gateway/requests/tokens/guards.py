"""Guards of the APIs of delegation tokens (KIP-373).

The renewal of a token needs no ACL: its owner and its renewers may renew it.  The handler itself
leaves out the tokens that a client may not see, since answers before version 3 do not have a
token's requester.
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
    """CREATE_TOKENS of the owner if the owner is another principal."""
    principal = caller.rights.principal
    owner = owner_of(request, principal)
    # If the client may not use these APIs at all, the handler refuses.
    needs_right = caller.may_have_tokens and owner != principal
    may = caller.rights.may
    if needs_right and not may(Operation.CREATE_TOKENS, ResourceType.USER, owner):
        code = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        return refused_creation(request, principal, code, caller.version)
    return (yield request)


def sees_token(principal: str, rights: Rights | None, token: DelegationToken) -> bool:
    """Return whether an answer may show a token to a client.

    A client may see its own tokens, and those that it created or may renew.  For other tokens it
    needs DESCRIBE of the token, or DESCRIBE_TOKENS of the owner.

    rights: None without an authorizer.
    """
    if rights is None or principal in token.principals:
        return True
    sees = rights.sees
    return sees(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id) or sees(
        Operation.DESCRIBE_TOKENS, ResourceType.USER, token.owner
    )
