"""Nothing leaks from a gateway in memory: its settings, logs, pages, answers and metadata log.

test_app_canaries.py does the same with processes, files, TLS and links.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import pprint
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import structlog
import trio
from trio.testing import MockClock

from tests.worlds.app_world import pages_of
from tests.worlds.canaries.canaries import leaks
from tests.worlds.security.sasl_client import (
    LISTENER,
    PLAIN_MODULE,
    PREFIX,
    authenticate,
    handshake,
    plain_token,
)
from tests.worlds.security.token_provider import Provider, first_message
from tests.worlds.wire_client import Closed, WireClient, WireWorld, request_frame, wire_world
from tidegate_coordination.configs.broker_configs import BROKER_CONFIGS
from tidegate_coordination.configs.listener_configs import OF_LISTENERS, listener_config
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_gateway.requests.scram import scram as scram_requests
from tidegate_gateway.security.audit_log import open_audit_log
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.work.blocking import Inline
from tidegate_protocol.messages import alter_user_scram_credentials as asc
from tidegate_protocol.messages import describe_configs as dc
from tidegate_protocol.messages import incremental_alter_configs as iac
from tidegate_runtime.log_lines import hide_secrets

SENSITIVE = sorted(name for name, each in BROKER_CONFIGS.items() if each.is_sensitive)
IN_SETTINGS = [
    *SENSITIVE,
    *(listener_config("x", each) for each in SENSITIVE if each in OF_LISTENERS),
]
BROKER = 4


def canary(kind: str) -> bytes:
    """Return the canary of a kind, which is always the same; it has 96 bits."""
    return f"cnry-{hashlib.sha256(kind.encode()).hexdigest()[:24]}".encode()


@pytest.mark.parametrize("name", IN_SETTINGS)
def test_no_view_of_the_settings_shows_a_secret(name: str) -> None:
    """Code that prints, copies or encodes settings has no secret that it could show."""
    secret = canary(name).decode()
    settings = BrokerSettings({"node.id": "1", name: secret})
    changed = dataclasses.replace(settings, static={**settings.static, "node.id": "2"})
    kept = {name: secret}  # an earlier release accepted some secrets as dynamic configs
    dynamic = dataclasses.replace(settings, dynamic=kept, dynamic_default=kept)
    for text in (repr(dynamic), str(dynamic), pprint.pformat(dynamic), repr(dynamic.current)):
        assert leaks({name: secret.encode()}, text.encode(), "dynamic configs") == []
    for each in (settings, changed):
        assert each.secrets[name].reveal() == secret
        views = [
            repr(each),
            str(each),
            pprint.pformat(each),
            repr(dataclasses.asdict(each)),
            repr(each.static),
            repr(each.layers),
            msgspec.json.encode(each, enc_hook=repr).decode(),
        ]
        assert leaks({name: secret.encode()}, "\n".join(views).encode(), "settings") == []
    of_all = name.removeprefix(listener_config("x", ""))
    with pytest.raises(AssertionError, match=f"{of_all} is a secret"):
        settings.text(of_all)
    with pytest.raises(AssertionError, match=f"{of_all} is a secret"):
        settings.listener_text("x", of_all)


@pytest.fixture
def lines() -> Iterator[list[str]]:
    """Yield the log lines of all levels as they would be written, with the standard library's."""
    found: list[str] = []

    def keep(_logger: object, _method: str, event: Any) -> str:
        found.append(repr(dict(event)))
        raise structlog.DropEvent

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(self.format(record))

    handler = Handler(logging.DEBUG)
    logging.getLogger().addHandler(handler)
    structlog.configure(processors=[structlog.processors.format_exc_info, hide_secrets, keep])
    yield found
    structlog.reset_defaults()
    logging.getLogger().removeHandler(handler)


GOOD = {
    kind: canary(kind)
    for kind in (
        *("peer token", "admin token", "PLAIN password", "secret key", "client secret"),
        "token key",
    )
}
GIVEN = {
    kind: canary(kind)
    for kind in (
        *("wrong PLAIN password", "wrong SCRAM proof", "bearer token", "altered config"),
        *("salted password", "SCRAM salt", "in a malformed request", "in a crash"),
    )
}
CANARIES = GOOD | GIVEN


def settings() -> dict[str, str]:
    text = {kind: each.decode() for kind, each in GOOD.items()}
    oauth = f"{PREFIX}.oauthbearer.sasl"
    return {
        f"{PREFIX}.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        f"{PREFIX}.plain.sasl.jaas.config": (
            f'{PLAIN_MODULE} required user_alice="{text["PLAIN password"]}";'
        ),
        f"{oauth}.oauthbearer.jwks.endpoint.url": "https://provider.example/keys",
        f"{oauth}.oauthbearer.expected.issuer": "https://provider.example",
        f"{oauth}.jaas.config": (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
            f' clientSecret="{text["client secret"]}";'
        ),
        "peer.token": text["peer token"],
        "admin.token": text["admin token"],
        "delegation.token.secret.key": text["token key"],
        "metadata.secret.key": text["secret key"] + "0" * 8,
    }


async def closed(client: WireClient) -> bool:
    try:
        await client.receive()
    except Closed:
        return True
    return False


async def log_in_wrongly(world: WireWorld, answers: list[object]) -> None:
    """Try each mechanism with a wrong password, proof or token."""
    wrong = {
        "PLAIN": [plain_token("alice", GIVEN["wrong PLAIN password"].decode())],
        "SCRAM-SHA-256": [
            b"n,,n=alice,r=nonce",
            b"c=biws,r=nonce,p=" + GIVEN["wrong SCRAM proof"],
        ],
        "OAUTHBEARER": [first_message(f"{GIVEN['bearer token'].decode()}.e30.e30"), b"\1"],
    }
    for mechanism, tokens in wrong.items():
        client = world.connect(listener=LISTENER)
        await handshake(client, mechanism)
        for each in tokens:
            answer = await authenticate(client, each)
        # Only the last answer counts: SCRAM's first answer has the salt, which clients need.
        answers.append(answer)
        assert answer.error_code, mechanism
        assert await closed(client)


async def send_nonsense(world: WireWorld) -> None:
    """Send malformed requests, with secrets in wrong places."""
    secret = GIVEN["in a malformed request"]
    upsertion = asc.ScramCredentialUpsertion("alice", 1, 4096, b"salt", secret * 3)
    whole = request_frame(
        "AlterUserScramCredentials", 0, asc.AlterUserScramCredentialsRequest([], [upsertion])
    )
    cut = len(whole) - 40
    for data in (
        (cut - 4).to_bytes(4) + whole[4:cut],
        (200).to_bytes(4) + secret * 8,
        secret * 40,
        b"POST /v1/x HTTP/1.1\r\nAuthorization: Bearer " + secret + b"\r\n\r\n",
    ):
        client = world.connect(listener=LISTENER)
        await client.send(data)
        client.transport.close()
        client = world.connect()
        await client.send(data)
        client.transport.close()
        await trio.testing.wait_all_tasks_blocked()


async def alter_and_describe(client: WireClient, answers: list[object]) -> None:
    """Set secrets by requests, and ask for all configs with all their synonyms."""
    salt, salted = GIVEN["SCRAM salt"], GIVEN["salted password"]
    new = [asc.ScramCredentialUpsertion("alice", 1, 4096, salt, salted)]
    bad = [asc.ScramCredentialUpsertion("alice", 1, 1, salt, salted)]
    for rows in (new, bad):
        request = asc.AlterUserScramCredentialsRequest([], rows)
        answers.append(await client.call("AlterUserScramCredentials", 0, request))
    value = GIVEN["altered config"].decode()
    names = (*SENSITIVE, listener_config("x", "ssl.key.password"), "num.partitions")
    for name in names:
        change = iac.AlterableConfig(name, 0, value)
        for broker in ("1", ""):
            altered = iac.AlterConfigsResource(BROKER, broker, [change])
            answer = await client.call(
                "IncrementalAlterConfigs", 1, iac.IncrementalAlterConfigsRequest([altered])
            )
            # An error repeats the client's value only to that client, and only if it is no secret.
            assert answer.responses[0].error_code, name
            if name != "num.partitions":
                answers.append(answer)
    resource = dc.DescribeConfigsResource(BROKER, "1", None)
    asked = dc.DescribeConfigsRequest([resource], include_synonyms=True, include_documentation=True)
    answer = await client.call("DescribeConfigs", 4, asked)
    shown = {each.name: each for each in answer.results[0].configs}
    assert all(shown[each].value is None for each in SENSITIVE if each in shown)
    assert shown["peer.token"].is_sensitive
    answers.append(answer)


async def crash(world: WireWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a handler fail while it handles secrets."""

    def fail(*arguments: Any, **named: Any) -> Any:
        raise RuntimeError("a planted bug")

    secret = GIVEN["in a crash"]
    with monkeypatch.context() as patched:
        patched.setattr(scram_requests, "credential_from", fail)
        rows = [asc.ScramCredentialUpsertion("alice", 1, 4096, secret, secret)]
        client = world.connect()
        request = asc.AlterUserScramCredentialsRequest([], rows)
        await client.send(request_frame("AlterUserScramCredentials", 0, request))
        assert await closed(client)


async def test_no_canary_is_in_logs_pages_answers_and_the_log(
    lines: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
) -> None:
    log, answers, provider = MemoryLog(), list[object](), Provider()
    audit = open_audit_log(str(tmp_path / "audit.log"), Inline(), lambda: 1_700_000_000_000)
    async with wire_world(
        settings(),
        log=log,
        listeners=("PLAINTEXT", LISTENER),
        audit=audit,
        read_keys=provider.read,
    ) as world:
        await alter_and_describe(world.connect(), answers)
        await log_in_wrongly(world, answers)
        await send_nonsense(world)
        await crash(world, monkeypatch)
        client = world.connect(listener=LISTENER)
        await handshake(client)
        good = plain_token("alice", GOOD["PLAIN password"].decode())
        answers.append(await authenticate(client, good))
        pages = pages_of(world.gateway)
        shown = [
            await pages.answer("GET", each)
            for each in ("/metrics", "/version", "/v1/status", "/v1/debug", "/v1/zones", "/none")
        ]
        gateway = world.gateway
        state = gateway.coordinator.state.encode()
        parts = [repr(vars(each)) for each in (gateway, gateway.peer_service, gateway.logins.gates)]
    await audit.flush()
    entries = await log.read(1, 1 << 20)
    assert isinstance(entries, list)
    places = {
        "log lines": "\n".join(lines),
        "answers": repr(answers),
        "pages": repr(shown),
        "parts": "\n".join(parts),
        "audit log": (tmp_path / "audit.log").read_text(),
    }
    found = [
        leak for place, text in places.items() for leak in leaks(CANARIES, text.encode(), place)
    ]
    found += leaks(CANARIES, b"".join(each.payload for each in entries), "metadata log")
    found += leaks(CANARIES, state, "snapshot")
    assert found == []
    assert "a planted bug" in places["log lines"]  # the crash was logged
    assert "login failed" in places["audit log"]
    assert b"alice" in state


def test_a_traceback_with_local_variables_shows_no_secret() -> None:
    """Log lines show no local variables, but a debugger's report may."""
    secret = canary("local")

    def use(settings: BrokerSettings) -> None:
        token = settings.secret("peer.token")
        raise RuntimeError(f"the token {token} of {settings} is bad")

    with pytest.raises(RuntimeError) as raised:
        use(BrokerSettings({"peer.token": secret.decode()}))
    found = traceback.TracebackException.from_exception(raised.value, capture_locals=True)
    [frame] = [each for each in found.stack if each.name == "use"]
    text = f"{frame.locals} {raised.value}"
    assert leaks({"token": secret}, text.encode(), "traceback") == []
    assert text.count("[hidden]") == 2
