"""ssl.principal.mapping.rules: Apache Kafka 4.3.1 mapped these subjects to these names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidegate_gateway.tls.principal_rules import NoPrincipal, read_principal_rules
from tidegate_runtime.settings_texts import SettingsError

GOLDEN = json.loads((Path(__file__).parent / "kafka_rules.json").read_text())


def ours(rules: str, subject: str) -> str:
    """Return "=" and the name, or "none", or "wrong", as the golden file has it."""
    try:
        name = read_principal_rules(rules).principal_of(subject)
    except SettingsError:
        return "wrong"
    except NoPrincipal:
        return "none"
    return f"={name.removeprefix('User:')}"


def test_names_are_kafkas() -> None:
    assert len(GOLDEN) > 300
    # Kafka accepts a principal without a name, "User:".  A gateway refuses it.
    wanted = [["none" if name == "=" else name, *case] for *case, name in GOLDEN]
    assert [[ours(*case), *case] for *case, _ in GOLDEN] == wanted


@pytest.mark.parametrize(
    ("rules", "subject", "reason"),
    [
        ("DEFAULT", "", "has no subject"),
        ("RULE:^CN=(a)$/$1/", "CN=b", "no rule of ssl.principal.mapping.rules matches 'CN=b'"),
        ("RULE:^CN=b$/*/", "CN=b", r"makes '\*' of 'CN=b'"),
        ("RULE:^CN=b$//", "CN=b", "makes '' of 'CN=b'"),
    ],
)
def test_a_certificate_without_a_principal_is_refused(
    rules: str, subject: str, reason: str
) -> None:
    with pytest.raises(NoPrincipal, match=reason):
        read_principal_rules(rules).principal_of(subject)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("RULE:^CN=(?=a).*$/x/", "is not one of RE2: invalid perl operator"),
        ("RULE:^CN=(a/x/", "is not one of RE2: missing"),
        ("RULE:^CN=.*$/$1/", "names a group that its pattern does not have"),
        ("RULE:^CN=(.*)$/$x/", "names a group"),
        ("RULE:^CN=(.*)$/${x}/", "names a group"),
        ("CN=(.*)", "'CN=.*' is no rule"),
    ],
)
def test_rules_that_are_none_are_refused_at_the_start(rules: str, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        read_principal_rules(rules)
