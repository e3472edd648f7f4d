"""The part of the script about rights, users and quotas.  It removes all of them at its end."""

from __future__ import annotations

from harness.java_tools.script import Call, Step

_ANN = "User:jt-ann"
_USER = "--entity-type users --entity-name jt-ann"
_CLIENT = "--entity-type clients --entity-name jt-client"

ACLS: list[Step] = [
    Call("acls", f"--add --allow-principal {_ANN} --operation Read --topic jt-one"),
    Call("acls", f"--add --allow-principal {_ANN} --producer --topic jt-one", view="sorted"),
    Call(
        "acls",
        f"--add --allow-principal {_ANN} --consumer --topic jt- --group jt-"
        " --resource-pattern-type prefixed",
        view="sorted",
    ),
    Call("acls", f"--add --deny-principal {_ANN} --deny-host 10.1.2.3 --operation All --cluster"),
    Call("acls", "--add --allow-principal ann --operation Read --topic jt-one", view="last"),
    Call(
        "acls",
        "--add --allow-principal User:* --producer --idempotent --topic jt-one"
        " --transactional-id jt-tx",
        view="sorted",
    ),
    Call("acls", "--list --topic jt-one", view="sorted"),
    Call("acls", "--list --topic jt-one --resource-pattern-type match", view="sorted"),
    Call("acls", f"--list --principal {_ANN}", view="sorted"),
    Call("acls", "--list --topic jt-missing"),
    Call(
        "acls",
        f"--remove --force --allow-principal {_ANN} --operation Read --topic jt-one",
        view="sorted",
    ),
    Call("acls", "--remove --force --topic jt-one"),
    Call("acls", "--remove --force --topic jt- --group jt- --resource-pattern-type prefixed"),
    Call("acls", "--remove --force --cluster"),
    Call("acls", "--remove --force --transactional-id jt-tx"),
    Call("acls", "--list", label="--list at the end"),
]

USERS: list[Step] = [
    Call("configs", f"--alter {_USER} --add-config SCRAM-SHA-256=[iterations=8192,password=p]"),
    Call("configs", f"--alter {_USER} --add-config SCRAM-SHA-512=[password=p]"),
    Call("configs", f"--alter {_USER} --add-config SCRAM-SHA-256=[iterations=100,password=p]"),
    Call("configs", f"--describe {_USER}", label="--describe user"),
    Call("configs", "--describe --entity-type users", label="--describe users"),
    Call("configs", f"--alter {_USER} --delete-config SCRAM-SHA-256"),
    Call(
        "configs",
        f"--alter {_USER} --delete-config SCRAM-SHA-256",
        label="--delete-config SCRAM-SHA-256 again",
    ),
    Call("configs", f"--alter {_USER} --delete-config SCRAM-SHA-512"),
    Call("configs", f"--describe {_USER}", label="--describe user, none"),
]

QUOTAS: list[Step] = [
    Call("configs", f"--alter {_CLIENT} --add-config producer_byte_rate=1048576"),
    Call("configs", f"--alter {_USER} --add-config consumer_byte_rate=2048,request_percentage=200"),
    Call(
        "configs", "--alter --entity-type users --entity-default --add-config request_percentage=50"
    ),
    Call("configs", f"--alter {_CLIENT} --add-config unknown_rate=1"),
    Call("configs", f"--describe {_CLIENT}", label="--describe client"),
    Call("configs", f"--describe {_USER}", label="--describe user with quotas"),
    Call("configs", "--describe --entity-type users --entity-default"),
    Call("configs", f"--alter {_CLIENT} --delete-config producer_byte_rate"),
    Call("configs", f"--alter {_USER} --delete-config consumer_byte_rate,request_percentage"),
    Call(
        "configs", "--alter --entity-type users --entity-default --delete-config request_percentage"
    ),
    Call("configs", f"--describe {_CLIENT}", label="--describe client, none"),
]

SECURITY: list[Step] = [*ACLS, *USERS, *QUOTAS]
