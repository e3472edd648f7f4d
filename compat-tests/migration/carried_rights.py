"""ACLs, client quotas and SCRAM users of Apache Kafka are carried over to a gateway, and compared.

    compat-tests/run carried-rights

Kafka and the gateway have an authorizer and a SASL listener each.  `tidegate link acls`, `quotas`
and `users` carry over.  Then both brokers must show the same ACLs, quotas and users.  Each user,
with librdkafka, must have the same rights to write: at Kafka with its old password, at the gateway
with its new one.  A link must also work if its principal may not describe the cluster.  The exit
status is 1 if anything differs.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Any, Final

import trio
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from harness import broker
from harness.process import free_ports
from harness.security import ScramUser, set_scram_users
from runner.result import Result
from runner.shared import NoOptions
from transactions.differential.wire import Request, connect

from migration.mirror import Mirror
from tidegate_protocol.messages import alter_client_quotas as aq
from tidegate_protocol.messages import create_acls as ca
from tidegate_protocol.messages import describe_acls as da
from tidegate_protocol.messages import describe_client_quotas as dq
from tidegate_protocol.messages import describe_user_scram_credentials as du

LINK: Final = "source"
PATIENCE_SECONDS: Final = 30.0
TOPICS: Final = ("orders", "payroll", "open")
PASSWORDS: Final = {"alice": "a b;=", "bob": "bob", "link": "link"}
SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
USERS: Final = {
    "alice": {SHA_256: 4096, SHA_512: 16384},
    "bob": {SHA_512: 8192},
    "link": {SHA_512: 4096},
}
_ANY, _TOPIC, _GROUP, _CLUSTER, _IDS = 1, 2, 3, 4, 5
_LITERAL, _PREFIXED = 3, 4
_ALL, _READ, _WRITE, _DESCRIBE, _CONFIGS = 2, 3, 4, 8, 10
_DENY, _ALLOW = 2, 3
ACLS: Final = [
    ca.AclCreation(_TOPIC, "orders", _LITERAL, "User:alice", "*", _WRITE, _ALLOW),
    ca.AclCreation(_TOPIC, "pay", _PREFIXED, "User:*", "*", _ALL, _ALLOW),
    ca.AclCreation(_TOPIC, "payroll", _LITERAL, "User:alice", "*", _WRITE, _DENY),
    ca.AclCreation(_TOPIC, "*", _LITERAL, "User:link", "*", _READ, _ALLOW),
    ca.AclCreation(_TOPIC, "*", _LITERAL, "User:link", "*", _CONFIGS, _ALLOW),
    ca.AclCreation(_TOPIC, "open", _LITERAL, "User:bob", "10.9.8.7", _WRITE, _ALLOW),
    ca.AclCreation(_GROUP, "g", _PREFIXED, "User:bob", "*", _READ, _ALLOW),
    ca.AclCreation(_IDS, "tx", _LITERAL, "Group:ops", "*", _DESCRIBE, _DENY),
    ca.AclCreation(_CLUSTER, "kafka-cluster", _LITERAL, "User:link", "*", _DESCRIBE, _DENY),
    ca.AclCreation(_CLUSTER, "kafka-cluster", _LITERAL, "User:broker", "*", 9, _ALLOW),
]
_BOTH: Final = (("user", "alice"), ("client-id", None))
QUOTAS: Final[Mapping[tuple[tuple[str, str | None], ...], Mapping[str, float]]] = {
    _BOTH: {"producer_byte_rate": 1048576.0, "request_percentage": 12.5},
    (("user", None),): {"consumer_byte_rate": 2e6},
    (("client-id", "app"),): {"controller_mutation_rate": 3.0},
    (("ip", "10.0.0.1"),): {"connection_creation_rate": 5.0},
    (("ip", None),): {"connection_creation_rate": 50.0},
}


def sasl_settings(port: int) -> dict[str, str]:
    """Return the settings of a broker's SASL listener."""
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    prefix = "listener.name.sasl_plaintext"
    mechanisms = (SHA_256, SHA_512)
    return {
        "listeners": f"SASL_PLAINTEXT://127.0.0.1:{port}",
        f"{prefix}.sasl.enabled.mechanisms": ",".join(mechanisms),
        **{
            f"{prefix}.{each.lower()}.sasl.jaas.config": f"{module} required;"
            for each in mechanisms
        },
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
    }


def fill(bootstrap: str) -> None:
    """Give Kafka topics, users, ACLs and quotas."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for made in admin.create_topics([NewTopic(each, 1, 1) for each in TOPICS]).values():
        made.result(PATIENCE_SECONDS)
    for mechanism in (SHA_256, SHA_512):  # a request may name a user once
        users = [
            ScramUser(name, PASSWORDS[name], found[mechanism])
            for name, found in USERS.items()
            if mechanism in found
        ]
        set_scram_users(bootstrap, mechanism, users)
    made_acls = asked(bootstrap, Request("CreateAcls", 3, ca.CreateAclsRequest(ACLS)))
    entries = [
        aq.AlterClientQuotasRequestEntryData(
            [aq.AlterClientQuotasRequestEntityData(*each) for each in entity],
            [aq.OpData(key, value, remove=False) for key, value in quotas.items()],
        )
        for entity, quotas in QUOTAS.items()
    ]
    set_quotas = asked(
        bootstrap, Request("AlterClientQuotas", 1, aq.AlterClientQuotasRequest(entries))
    )
    codes = {each.error_code for each in (*made_acls.results, *set_quotas.entries)}
    if codes != {0}:
        raise RuntimeError(f"the source is not filled: {made_acls} {set_quotas}")


def asked(bootstrap: str, request: Request) -> Any:
    """Return a broker's answer."""

    async def ask() -> Any:
        connection = await connect(bootstrap)
        try:
            return await connection.call(request)
        finally:
            await connection.close()

    return trio.run(ask)


def shown(bootstrap: str) -> dict[str, Any]:
    """Return ACLs, quotas and users as a broker shows them."""
    every_acl = da.DescribeAclsRequest(_ANY, None, _ANY, None, None, _ANY, _ANY)
    acls = asked(bootstrap, Request("DescribeAcls", 3, every_acl))
    quotas = asked(bootstrap, Request("DescribeClientQuotas", 1, dq.DescribeClientQuotasRequest()))
    everyone = du.DescribeUserScramCredentialsRequest(None)
    users = asked(bootstrap, Request("DescribeUserScramCredentials", 0, everyone))
    return {
        "acls": sorted(
            (
                resource.resource_type,
                resource.pattern_type,
                resource.resource_name,
                *(each.principal, each.host, each.operation, each.permission_type),
            )
            for resource in acls.resources
            for each in resource.acls
        ),
        "quotas": sorted(
            (
                sorted((each.entity_type, each.entity_name or "") for each in entry.entity),
                sorted((each.key, each.value) for each in entry.values),
            )
            for entry in quotas.entries or ()
        ),
        "users": sorted(
            (
                result.user,
                sorted((each.mechanism, each.iterations) for each in result.credential_infos),
            )
            for result in users.results
        ),
    }


def may_write(servers: str, user: str, password: str) -> dict[tuple[str, str], str]:
    """Send a record to each topic by each mechanism of a user; return the outcomes."""
    found: dict[tuple[str, str], str] = {}
    for mechanism, topic in product(USERS[user], TOPICS):
        producer = Producer(
            {
                "bootstrap.servers": servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": mechanism,
                "sasl.username": user,
                "sasl.password": password,
                "log_level": 0,
                "message.timeout.ms": 15_000,
            }
        )
        outcome: list[str] = []

        def told(error: KafkaError | None, _: object, outcome: list[str] = outcome) -> None:
            outcome.append(error.name() if error is not None else "written")

        producer.produce(topic, b"v", on_delivery=told)
        producer.flush(PATIENCE_SECONDS)
        found[mechanism, topic] = outcome[0] if outcome else "no answer"
    return found


def run() -> list[str]:
    """Carry over, and return the problems."""
    with ExitStack() as stack:
        theirs, ours = free_ports(2)
        sasl = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
        protocols = {"listener.security.protocol.map": sasl}
        kafka = stack.enter_context(broker.running("kafka", sasl_settings(theirs) | protocols))
        fill(kafka.bootstrap)
        folder = broker.fresh_folder("carried-rights")
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        login = folder / "link.properties"
        login.write_text(
            "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config="
            "org.apache.kafka.common.security.scram.ScramLoginModule required"
            f' username="link" password="{PASSWORDS["link"]}";\n'
        )
        settings = {**sasl_settings(ours), "link.client.properties": f"limited={login}"}
        gateway = stack.enter_context(broker.running("tidegate", settings))
        assert isinstance(gateway, broker.LocalBroker)
        mirror = Mirror("--data", str(gateway.folder / "data"))
        words = ("--bootstrap-servers", kafka.bootstrap, "--topics", "none")
        mirror.command("link", "add", LINK, *words)
        problems = _limited(mirror, f"127.0.0.1:{theirs}", login)
        made = folder / "passwords.json"
        problems += _carried(mirror, made)
        passwords = json.loads(made.read_text())
        there, here = shown(kafka.bootstrap), shown(gateway.bootstrap)
        problems += [
            f"{each}: {there[each]} there, {here[each]} here"
            for each in there
            if there[each] != here[each]
        ]
        admin = AdminClient({"bootstrap.servers": gateway.bootstrap, "log_level": 0})
        for topic in admin.create_topics([NewTopic(each, 1, 1) for each in TOPICS]).values():
            topic.result(PATIENCE_SECONDS)
        for user in USERS:
            expected = may_write(f"127.0.0.1:{theirs}", user, PASSWORDS[user])
            found = may_write(f"127.0.0.1:{ours}", user, passwords[user])
            print(f"{user}: {found}", flush=True)
            if found != expected:
                problems.append(f"{user}: {expected} there, {found} here")
        return problems


def _limited(mirror: Mirror, servers: str, login: Path) -> list[str]:
    """Return the problems of a link whose principal may not describe the cluster."""
    file = ("--client-properties", str(login))
    words = ("limited", "--bootstrap-servers", servers, "--topics", "orders", *file)
    mirror.command("link", "add", *words)
    findings = mirror.command("link", "check", "limited", *file)
    problems = [f"check: {each}" for each in findings if each["problem"]]
    if not any(
        "give the link's principal DESCRIBE" in (each["warning"] or "") for each in findings
    ):
        problems.append(f"check does not say what is missing: {findings}")
    [topic] = mirror.command("link", "plan", "limited", *file)
    if topic["missing_acls"] is not None or topic["obstacle"]:
        problems.append(f"plan: {topic}")
    for what in ("acls", "quotas", "users"):
        trial = () if what == "users" else ("--dry-run",)
        told = mirror.command("link", what, "limited", *trial, *file, may_fail=True)
        if "give the link's principal DESCRIBE" not in told.get("reason", ""):
            problems.append(f"{what}: {told}")
    mirror.command("link", "remove", "limited", "--delete-topics", "--yes")
    return problems


def _carried(mirror: Mirror, made: Path) -> list[str]:
    problems: list[str] = []
    trial = mirror.command("link", "acls", LINK, "--dry-run", may_fail=True)
    permissions = [each["permission"] for each in trial["missing"]]
    if permissions != sorted(permissions, reverse=True):
        problems.append(f"a permission before a denial: {trial['missing']}")
    done = mirror.command("link", "acls", LINK, "--yes")
    if (done["added"], len(done["notes"])) != (len(ACLS), 3):
        problems.append(f"acls: {done}")
    done = mirror.command("link", "quotas", LINK, "--yes")
    if done["changed"] != sum(map(len, QUOTAS.values())) or done["not_carried"]:
        problems.append(f"quotas: {done}")
    done = mirror.command("link", "users", LINK, "--generate", str(made), "--plain", "--yes")
    if done["set"] != sorted(USERS):
        problems.append(f"users: {done}")
    for what in ("acls", "quotas"):
        mirror.command("link", what, LINK, "--dry-run", "--prune")  # fails if something differs
    return problems


def main(options: NoOptions) -> Result:
    """Run it."""
    problems = run()
    lines = [*(f"PROBLEM: {each}" for each in problems), f"{len(problems)} problems"]
    return Result(not problems, "\n".join(lines))
