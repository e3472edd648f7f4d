"""The listeners, users and rights that both brokers of the script have.  Pure."""

from __future__ import annotations

from typing import Final

from tidegate_coordination.security.acls import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidegate_protocol.messages import create_acls as ca

LOGIN: Final = "LOGIN"
OPEN: Final = "PLAINTEXT"
ADMIN: Final = "admin"
USERS: Final = (ADMIN, "alice", "bob", "carol", "dave", "erin", "frank", "gina", "henry", "ivan")
"""Their passwords are their names, for PLAIN and SCRAM.  bob may create tokens for alice, erin for
all, frank for all but alice.  carol may see alice's, henry those of names with "a", dave all.
gina's right names no user, and ivan has none.
"""
SECRET_KEY: Final = "the key of these tests"
AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
DAY_MS: Final = 86_400_000
_MODULES: Final = "org.apache.kafka.common.security"
_CREATE, _DESCRIBE = Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS


def settings(*, has_key: bool) -> dict[str, str]:
    """Return settings under Kafka's names, without the listeners' addresses."""
    prefix = f"listener.name.{LOGIN.lower()}"
    login = " ".join(f'user_{each}="{each}"' for each in USERS)
    found = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,"
        f"{LOGIN}:SASL_PLAINTEXT",
        f"{prefix}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        f"{prefix}.plain.sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required {login};",
        "authorizer.class.name": AUTHORIZER,
        "super.users": f"User:{ADMIN};User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": "false",
        "connection.failed.authentication.delay.ms": "0",
    }
    for name in ("scram-sha-256", "scram-sha-512"):
        module = f"{_MODULES}.scram.ScramLoginModule required;"
        found[f"{prefix}.{name}.sasl.jaas.config"] = module
    return found | ({"delegation.token.secret.key": SECRET_KEY} if has_key else {})


def rights() -> list[Acl]:
    """Return the ACLs."""
    user, token = ResourceType.USER, ResourceType.DELEGATION_TOKEN
    literal, prefixed = PatternType.LITERAL, PatternType.PREFIXED
    return [
        _acl(user, literal, "User:alice", "bob", _CREATE),
        _acl(user, literal, "*", "erin", _CREATE),
        _acl(user, literal, "*", "frank", _CREATE),
        _acl(user, literal, "User:alice", "frank", _CREATE, Permission.DENY),
        _acl(user, literal, "alice", "gina", _CREATE),
        _acl(user, literal, "User:alice", "carol", _DESCRIBE),
        _acl(user, prefixed, "User:a", "henry", _DESCRIBE),
        _acl(token, literal, "*", "dave", Operation.DESCRIBE),
    ]


def _acl(
    kind: ResourceType,
    pattern: PatternType,
    name: str,
    user: str,
    operation: Operation,
    permission: Permission = Permission.ALLOW,
) -> Acl:
    return Acl(kind, pattern, name, f"User:{user}", "*", operation, permission)


def creation(acl: Acl) -> ca.AclCreation:
    """Return an ACL as a request has it."""
    return ca.AclCreation(
        acl.resource_type,
        acl.name,
        acl.pattern_type,
        acl.principal,
        acl.host,
        acl.operation,
        acl.permission,
    )
