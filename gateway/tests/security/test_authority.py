"""Authorization decisions that are cached, and denials that are logged."""

from __future__ import annotations

from tidegate_coordination.events.security import AclsChanged
from tidegate_coordination.security.acls import (
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from tidegate_coordination.security.authorizer import Authorizer
from tidegate_coordination.state.security.acls import AclTable
from tidegate_gateway.network.call import Peer
from tidegate_gateway.security import authority as module
from tidegate_gateway.security.authority import Authority

READ, WRITE, TOPIC = Operation.READ, Operation.WRITE, ResourceType.TOPIC
ALLOWED = Acl(TOPIC, PatternType.LITERAL, "t", "User:ann", "*", READ, Permission.ALLOW)


class Noted:
    """Stands for an audit log (audit.py)."""

    def __init__(self) -> None:
        self.facts: list[dict[str, object]] = []

    def note(self, event: str, **facts: object) -> None:
        assert event == "denied"
        self.facts.append(facts)


def authority(*acls: Acl) -> tuple[Authority, Noted, AclTable]:
    """Return an authority with its audit log and its ACLs."""
    table, noted = AclTable(), Noted()
    table.fold_changed(AclsChanged(acls, ()), 1)
    return Authority(table, Authorizer(table.index, frozenset()), lambda: 0.0, noted), noted, table


def peer(principal: str = "User:ann", host: str = "h") -> Peer:
    return Peer(host, 1, "L", principal=principal)


def test_a_decision_is_kept_until_the_acls_change() -> None:
    one, _, table = authority(ALLOWED)
    rights = one.of(peer())
    assert rights.may(READ, TOPIC, "t")
    table.fold_changed(AclsChanged((), (ALLOWED,)), 2)
    assert not rights.may(READ, TOPIC, "t")


def test_clients_of_one_principal_and_host_share_their_decisions() -> None:
    one, _, _ = authority(ALLOWED)
    assert one.of(peer()) is one.of(peer())
    assert one.of(peer()) is not one.of(peer(host="other"))
    assert one.of(peer()) is not one.of(peer("User:bob"))


def test_rights_follow_a_login() -> None:
    """A client asks for versions before it logs in, and has no rights before the login."""
    one, _, _ = authority(ALLOWED)
    client = peer("User:ANONYMOUS")
    assert not one.of(client).may(READ, TOPIC, "t")
    client.principal = "User:ann"
    assert one.of(client).may(READ, TOPIC, "t")


def test_a_denial_is_noted_once_and_only_if_it_was_asked_for() -> None:
    one, noted, _ = authority(ALLOWED)
    rights = one.of(peer())
    assert not rights.sees(WRITE, TOPIC, "t")
    assert noted.facts == []
    for _ in range(3):
        assert not rights.may(WRITE, TOPIC, "t")
    assert [each["operation"] for each in noted.facts] == ["WRITE"]


def test_kept_decisions_are_bounded() -> None:
    one, _, _ = authority(ALLOWED)
    rights = one.of(peer())
    for number in range(3 * module.MAX_KEPT):
        rights.sees(READ, TOPIC, f"t{number}")
    assert isinstance(rights, module.ClientRights)
    assert sum(map(len, rights._kept.values())) <= module.MAX_KEPT
