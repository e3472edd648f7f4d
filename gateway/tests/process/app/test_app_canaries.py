"""No secret leaks from real processes: none is in any byte that they write.

Secrets, right and wrong ones, are given at every place that takes one, with all log lines on.  The
search leaves out the places of secrets: the files of settings, and the wire.
"""

from __future__ import annotations

import json
import socket
import ssl
import tarfile
import time
import urllib.error
import urllib.request
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.admin._resource import ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.worlds.app_world import PATIENCE_SECONDS, Process
from tests.worlds.canaries.canaries import Leak, leaks, leaks_in_files
from tests.worlds.canaries.canary_cluster import CanaryCluster
from tests.worlds.greetings import produce

PAGES = (
    *("/livez", "/readyz", "/metrics", "/version", "/v1/status", "/v1/debug", "/v1/links"),
    *("/v1/zones", "/v2"),
)
SECONDS = 15.0


def logs_in(cluster: CanaryCluster, servers: str, mechanism: str, named: dict[str, Any]) -> bool:
    """Connect with librdkafka; return whether the cluster answers."""
    settings: dict[str, Any] = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(cluster.stores.root),
        "sasl.mechanism": mechanism,
    }
    failed = list[object]()
    settings |= {**named, "error_cb": failed.append}
    client = AdminClient(settings)
    until = time.monotonic() + SECONDS
    while not failed and time.monotonic() < until:
        try:
            client.poll(0.1)
            client.list_topics(timeout=0.5)
        except KafkaException:
            continue
        return True
    return False


def log_in_everywhere(cluster: CanaryCluster, servers: str) -> None:
    """Log in by all mechanisms, with the right secret and with a wrong one."""
    secret = cluster.canaries
    for mechanism, right in (("PLAIN", "PLAIN password"), ("SCRAM-SHA-256", "SCRAM password")):
        for kind in (right, f"wrong {right}"):
            named: dict[str, Any] = {"sasl.username": "alice", "sasl.password": secret[kind]}
            assert logs_in(cluster, servers, mechanism, named) == (kind == right), kind
    for kind, claims in (("token", {}), ("wrong token", {"iss": secret["wrong issuer"]})):
        token = cluster.token(**claims)
        secret.add(kind, token.encode())
        secret.add(f"signature of the {kind}", token.rpartition(".")[2].encode())
        found = partial(given_token, token)
        assert logs_in(cluster, servers, "OAUTHBEARER", {"oauth_cb": found}) == (not claims)


def given_token(token: str, _config: str) -> tuple[str, float]:
    return token, time.time() + 600


def set_password(cluster: CanaryCluster, servers: str) -> None:
    """Give alice a password of SCRAM."""
    secret = cluster.canaries
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    password, salt = secret["SCRAM password"].encode(), secret["SCRAM salt"].encode()
    change = UserScramCredentialUpsertion("alice", info, password, salt)
    client = AdminClient({"bootstrap.servers": servers})
    client.alter_user_scram_credentials([change])["alice"].result(SECONDS)


def alter_and_describe(cluster: CanaryCluster, servers: str) -> None:
    """Try to make a secret a dynamic config; and describe all configs."""
    client = AdminClient({"bootstrap.servers": servers})
    for name in ("ssl.key.password", "sasl.jaas.config", "peer.token"):
        entry = ConfigEntry(
            name, cluster.canaries["dynamic"], incremental_operation=AlterConfigOpType.SET
        )
        resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
        try:
            client.incremental_alter_configs([resource])[resource].result(SECONDS)
        except KafkaException as error:
            cluster.said[f"refusal of {name}"] = str(error)
        else:
            raise AssertionError(f"{name} was taken")
    resource = ConfigResource(ResourceType.BROKER, "1")
    found = client.describe_configs([resource])[resource].result(SECONDS)
    cluster.said["configs"] = repr(
        [(each.name, each.value, each.synonyms) for each in found.values()]
    )


def send_nonsense(cluster: CanaryCluster, process: Process, servers: str) -> None:
    """Send bytes to each port that it does not understand."""
    secret = cluster.canaries["in nonsense"].encode()
    context = ssl.create_default_context(cafile=str(cluster.stores.root))
    admin = str(process.said["admin_url"]).removeprefix("http://")
    for address in (*servers.split(","), admin, str(process.said["peer"])):
        host, _, port = address.rpartition(":")
        for data in (
            secret * 20,
            (40).to_bytes(4) + bytes((0, 17, 0, 1)) + secret,
            b"POST /v1/proposals HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "
            + secret
            + b"\r\nContent-Length: 4\r\n\r\nnone",
        ):
            for is_tls in (False, True):
                try:
                    with socket.create_connection((host, int(port)), SECONDS) as plain:
                        plain.settimeout(0.2)
                        if is_tls:
                            with context.wrap_socket(plain, server_hostname=host) as secured:
                                secured.sendall(data)
                                secured.recv(1 << 16)
                        else:
                            plain.sendall(data)
                            plain.recv(1 << 16)
                except OSError:
                    continue


def read_pages(cluster: CanaryCluster, process: Process) -> None:
    """Read all pages, with the token and with a wrong one."""
    for kind in ("admin token", "wrong admin token"):
        for path in PAGES:
            request = urllib.request.Request(f"{process.said['admin_url']}{path}")
            request.add_header("Authorization", f"Bearer {cluster.canaries[kind]}")
            try:
                with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
                    text = f"{answer.headers}{answer.read().decode()}"
            except urllib.error.HTTPError as error:
                with error:
                    text = f"{error.headers}{error.read().decode()}"
            cluster.said[f"{path} with the {kind}"] = text


def link_with_wrong_secrets(cluster: CanaryCluster, process: Process) -> None:
    """Make links, and wait until the links without a valid login report it."""
    log = ("--log", cluster.log_url)
    servers = ("--bootstrap-servers", cluster.bootstrap_of_source)
    for name, file, wanted in (
        ("src", "good.properties", 0),
        ("tokens", "tokens.properties", 0),
        ("none", "good.properties", 0),
        ("other", "link.properties", 2),
        ("refused", "no-tokens.properties", 2),
    ):
        place, topics = f"link add {name}", ("--topics", f"{name}.*")
        with_file = ("--client-properties", str(cluster.secret / file))
        code = cluster.run(place, "link", "add", name, *servers, *topics, *with_file, *log)
        assert code == wanted, cluster.said[place]
    assert "gives no token (HTTP 401)" in cluster.said["link add refused"]
    until, page = time.monotonic() + PATIENCE_SECONDS, "/v1/links with the admin token"
    while time.monotonic() < until:
        read_pages(cluster, process)
        said = cluster.said[page]
        if "does not authenticate user linker" in said and "gives no token (HTTP 401)" in said:
            break
        time.sleep(0.2)
    else:
        raise AssertionError(cluster.said[page])
    assert any(each.startswith("link token") for each in cluster.canaries.known)


def run_commands(cluster: CanaryCluster, process: Process) -> None:
    """Run the commands of operators, also with wrong settings."""
    secret, file = cluster.canaries, cluster.secret / "server.properties"
    as_is = file.read_text()
    cluster.run("doctor", "doctor", "--properties", str(file), "--data", "data")
    cluster.run("doctor, JSON", "doctor", "--properties", str(file), "--data", "data", "--json")
    store = ("--object-store", "file:objects")
    admin = str(process.said["admin_url"]).removeprefix("http://")
    token = cluster.secret / "admin.token"
    token.write_text(secret["admin token"])
    wanted = ("--admin", admin, "--token-file", str(token), "--out", "debug.tar.gz")
    assert cluster.run("bundle", "debug", "bundle", *wanted) == 0
    with tarfile.open(cluster.work / "debug.tar.gz") as bundle:
        for name in bundle.getnames():  # Python 3.11.2's extractall() has no filter
            bundle.extract(name, cluster.work / "bundle")
    assert cluster.run("backup", "log", "backup", "--log", cluster.log_url, *store) == 0
    cluster.run("audit", "audit", "verify", "audit.log")
    cluster.run("gateways", "gateway", "list", "--log", cluster.log_url)
    wrong = {
        "keystore": f"listener.name.sasl_ssl.ssl.keystore.password={secret['wrong keystore']}",
        "truststore": f"listener.name.sasl_ssl.ssl.truststore.password={secret['wrong trust']}",
        "inline key": f"listener.name.peer.ssl.key.password={secret['wrong key password']}",
        "jaas": f"listener.name.sasl_ssl.plain.sasl.jaas.config=x {secret['broken jaas']} y",
        "short key": f"metadata.secret.key={secret['short key'][:20]}",
        "other key": f"metadata.secret.key={secret['other key']}\nmetadata.secret.old.keys=",
        "log token": "metadata.log="
        + cluster.log_url.partition("?")[0].replace("//", f"//:{secret['wrong log token']}@"),
        "postgres": f"metadata.log=postgres://ann:{secret['postgres password']}@127.0.0.1:1/db"
        f"?sslpassword={secret['postgres key password']}",
        "bad postgres": f"metadata.log=postgres://ann:{secret['bad postgres']}/x@127.0.0.1:1/db",
        "bad escape": f"peer.token=\\u{secret['bad escape']}",
        "bucket": f"object.store=s3://id:{secret['key in URL']}@bucket/p?endpoint=http://127.0.0.1:1",
        "endpoint": "object.store=s3://bucket/p?region=r&endpoint="
        f"http://u:{secret['key in endpoint']}@127.0.0.1:1",
        "scheme": f"object.store=s4://id:{secret['key of s4']}@bucket/p",
        "refused store": "object.store=s3://bucket/p?region=r&endpoint=http://127.0.0.1:1",
    }
    keys = {
        "AWS_ACCESS_KEY_ID": "known",
        "AWS_SECRET_ACCESS_KEY": secret["AWS secret key"],
        "AWS_SESSION_TOKEN": secret["AWS session token"],
    }
    for name, line in wrong.items():
        bad = cluster.secret / "bad.properties"
        bad.write_text(f"{as_is}\n{line}\n")
        given = ("--properties", str(bad), "--data", f"bad data of {name.replace(' ', '-')}")
        # `serve` would retry these for long.  For the others it prints the same as `doctor`.
        if name in ("postgres", "log token", "refused store"):
            code = cluster.run(f"doctor, {name}", "doctor", *given, **keys)
        else:
            code = cluster.run(f"serve, {name}", "serve", *given, "--log-level", "debug", **keys)
        assert code == 1, name
    shown = ("--set", f"peer.token={secret['on the command line']}")
    cluster.run("doctor --set", "doctor", *shown, "--data", "data")
    assert "ps" in cluster.said["doctor --set"]
    cluster.run("--set without =", "serve", "--set", f"peer.token:{secret['without =']}")


def all_leaks(cluster: CanaryCluster) -> list[Leak]:
    known = cluster.canaries.known
    found = leaks_in_files(known, cluster.work)
    for place, text in cluster.said.items():
        found += leaks(known, text.encode(), place)
    return found


def test_no_canary_is_in_anything_that_processes_write(tmp_path: Path) -> None:
    cluster = CanaryCluster(tmp_path / "secret", tmp_path / "work")
    with cluster.gateway() as process:
        plain, secured = process.servers.split(",")
        set_password(cluster, plain)
        log_in_everywhere(cluster, secured)
        produce(plain, "a", "b")
        alter_and_describe(cluster, plain)
        send_nonsense(cluster, process, f"{plain},{secured}")
        link_with_wrong_secrets(cluster, process)
        read_pages(cluster, process)
        run_commands(cluster, process)
    found = {(each.kind, each.place, each.encoding) for each in all_leaks(cluster)}
    assert found == set()
    # The logs show that all of this happened.
    assert "a link does not run" in next((cluster.work / "bundle").rglob("debug.json")).read_text()
    assert "login failed" in (cluster.work / "audit.log").read_text()
    assert '"level":"warning"' in (cluster.work / "gateway.stderr").read_text()
    assert json.loads(cluster.said["/v1/status with the admin token"].partition("\n\n")[2])
    assert len(list((cluster.work / "objects").rglob("*"))) > 3
