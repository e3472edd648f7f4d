"""Security holes of settings: loaded code and files, described secrets, and secrets in logs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
import structlog
from structlog.testing import capture_logs

from tests.security.known_holes.hole import Hole
from tests.worlds.security.sasl_client import (
    LISTENER,
    PREFIX,
    authenticate,
    handshake,
    log_in,
    plain_token,
    sasl_settings,
)
from tests.worlds.security.scram_login import salted, upsertion
from tests.worlds.wire_client import records_batch, request_frame, wire_world
from tidegate_coordination.client.errors import BadProperties
from tidegate_coordination.client.properties import client, jaas
from tidegate_coordination.client.properties.client import read_client_properties
from tidegate_coordination.configs.definition import Definition
from tidegate_gateway.dispatch import Dispatcher
from tidegate_gateway.security.sasl import listeners
from tidegate_gateway.security.sasl.gates import check_sasl
from tidegate_gateway.settings import config_providers
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import alter_user_scram_credentials as asc
from tidegate_protocol.messages import describe_configs as dc
from tidegate_protocol.messages import incremental_alter_configs as ia
from tidegate_runtime.log_lines import hide_secrets
from tidegate_runtime.secret import Secret
from tidegate_runtime.settings_texts import BadSource, SettingsError, Texts

CANARY: Final = "canary-3f9a"
_PACKAGE: Final = "org.apache.kafka.common.config.provider."


# -- classes that a setting names ------------------------------------------------------------------


async def settings_load_no_code() -> None:
    """Refuse a login module that asks the attacker's directory, at a listener and at a link."""
    for module in (
        "com.sun.security.auth.module.JndiLoginModule",
        "com.sun.security.auth.module.LdapLoginModule",
    ):
        entry = f'{module} required user.provider.url="ldap://evil" user_a="b" username="a"'
        texts = sasl_settings() | {f"{PREFIX}.plain.sasl.jaas.config": f"{entry};"}
        with pytest.raises(SettingsError):
            check_sasl(BrokerSettings(texts), [LISTENER])
        link = (
            "bootstrap.servers=broker:9092\nsecurity.protocol=SASL_PLAINTEXT\n"
            f'sasl.mechanism=PLAIN\nsasl.jaas.config={entry} password="b";\n'
        )
        with pytest.raises(BadProperties):
            read_client_properties(link, "link.properties")
    async with wire_world() as world:
        rows = [ia.AlterableConfig(f"{PREFIX}.plain.sasl.jaas.config", 0, f"{entry};")]
        request = ia.IncrementalAlterConfigsRequest([ia.AlterConfigsResource(4, "1", rows)])
        [row] = (await world.connect().call("IncrementalAlterConfigs", 1, request)).responses
        assert row.error_code != 0


def takes_any_module_at_a_listener(patch: pytest.MonkeyPatch) -> None:
    def read(text: str) -> Any:
        return jaas.login_module("PLAIN"), jaas.read_login_module(text)[1]

    patch.setattr(listeners, "read_login_module", read)


def takes_any_module_at_a_link(patch: pytest.MonkeyPatch) -> None:
    def read(mechanism: str, text: str) -> Any:
        _, options = jaas.read_login_module(text)
        return jaas.SaslCredentials(mechanism, options["username"], Secret(options["password"]))

    patch.setattr(client, "read_credentials", read)


# -- values from elsewhere -------------------------------------------------------------------------


async def values_from_elsewhere_are_the_operators() -> None:
    """Variables take values only from sources that the operator set, and from allowed folders."""
    with TemporaryDirectory() as folder:
        inside = Path(folder) / "inside"
        inside.mkdir()
        (Path(folder) / "token").write_text(CANARY)
        (inside / "link").symlink_to(Path(folder))
        texts = {
            "config.providers": "dir",
            "config.providers.dir.class": f"{_PACKAGE}DirectoryConfigProvider",
            "config.providers.dir.param.allowed.paths": str(inside),
        }
        for path in (folder, f"{inside}/..", f"{inside}/link"):
            with pytest.raises(BadSource):
                config_providers.with_provided(texts | {"a": f"${{dir:{path}:token}}"}, {})
    # Only the operator can set a provider, too.
    text = {"a": "${env:X}"}
    assert config_providers.with_provided(text, {"X": CANARY}) == text
    async with wire_world() as world:
        client = world.connect()
        for name in ("config.providers", "config.providers.env.class"):
            rows = [ia.AlterableConfig(name, 0, "env")]
            request = ia.IncrementalAlterConfigsRequest([ia.AlterConfigsResource(4, "", rows)])
            [row] = (await client.call("IncrementalAlterConfigs", 1, request)).responses
            assert row.error_code == ErrorCode.INVALID_REQUEST


def does_not_look_where_a_path_leads(patch: pytest.MonkeyPatch) -> None:
    def checked(path: str, allowed: tuple[Path, ...]) -> Path:
        if allowed and not any(Path(path).is_relative_to(each) for each in allowed):
            raise BadSource(path)
        return Path(path)

    patch.setattr(config_providers, "_checked", checked)


def has_a_provider_of_its_own(patch: pytest.MonkeyPatch) -> None:
    real = config_providers.with_provided

    def provided(texts: Texts, environ: Mapping[str, str]) -> Texts:
        known = {"config.providers": "env", "config.providers.env.class": "EnvVarConfigProvider"}
        found = real(known | dict(texts), environ)
        return {name: text for name, text in found.items() if name in texts}

    patch.setattr(config_providers, "with_provided", provided)


# -- secrets that are shown ------------------------------------------------------------------------


async def secrets_are_not_described() -> None:
    """DescribeConfigs names the secrets without their values."""
    secret = {"ssl.keystore.password": CANARY} | sasl_settings({"alice": CANARY})
    async with wire_world(secret, listeners=(LISTENER, "PLAINTEXT")) as world:
        client = world.connect(listener="PLAINTEXT")
        request = dc.DescribeConfigsRequest([dc.DescribeConfigsResource(4, "1", None)], True)
        await client.send(request_frame("DescribeConfigs", 4, request))
        answer = await client.receive()
        assert CANARY.encode() not in answer
        assert b"ssl.keystore.password" in answer


def describes_all(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Definition, "is_sensitive", property(lambda self: False))


# -- secrets in logs -------------------------------------------------------------------------------


async def logs_have_no_secrets() -> None:
    """Logins, new passwords, and records leave no secret in log lines of any level."""
    users = {"alice": f"{CANARY}-password"}
    with capture_logs() as lines:
        async with wire_world(sasl_settings(users), listeners=(LISTENER,)) as world:
            client, other = world.connect(), world.connect()
            await log_in(client, "alice", users["alice"])
            await handshake(other)
            answer = await authenticate(other, plain_token("alice", f"{CANARY}-guess"))
            assert answer.error_code == 58
            row = upsertion("bob", f"{CANARY}-new")
            change = asc.AlterUserScramCredentialsRequest([], [row])
            result = await client.call("AlterUserScramCredentials", 0, change)
            assert result.results[0].error_code == 0
            await world_with_a_record(client)
    masked = [hide_secrets(None, "", dict(each)) for each in lines]
    assert masked
    said = repr(masked)
    assert CANARY not in said
    assert repr(salted(f"{CANARY}-new"))[2:-1] not in said


async def world_with_a_record(client: Any) -> None:
    """Produce a record to a topic that does not exist."""
    answer = await client.produce("missing", 0, records_batch(CANARY.encode()))
    assert answer.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def logs_whole_requests(patch: pytest.MonkeyPatch) -> None:
    real = Dispatcher.handle

    async def handle(self: Dispatcher, connection: Any, frame: memoryview, arena: Any) -> None:
        structlog.get_logger().debug("a request", frame=bytes(frame))
        await real(self, connection, frame, arena)

    patch.setattr(Dispatcher, "handle", handle)


HOLES: Final = (
    Hole("CVE-2019-12399", secrets_are_not_described, (describes_all,)),
    Hole(
        "CVE-2024-31141",
        values_from_elsewhere_are_the_operators,
        (does_not_look_where_a_path_leads, has_a_provider_of_its_own),
    ),
    Hole(
        "CVE-2025-27818",
        settings_load_no_code,
        (takes_any_module_at_a_listener, takes_any_module_at_a_link),
    ),
    Hole("CVE-2026-33558", logs_have_no_secrets, (logs_whole_requests,)),
)
