"""The findings of `tidegate doctor` about logins and rights: settings that few operators want."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, Sequence
from typing import Final

from tidegate_coordination.configs.listener_configs import listener_config
from tidegate_coordination.configs.validation import split_list
from tidegate_coordination.events.metadata_versions import FEATURE_NAME, SEALS
from tidegate_coordination.security.authorizer import super_users_of
from tidegate_coordination.state.cluster import ClusterState
from tidegate_coordination.state.security.acls import AclTable
from tidegate_coordination.state.security.scram import ScramCredential
from tidegate_runtime.addresses import ListenerAddress
from tidegate_runtime.settings_texts import SettingsError

from ..network.call import ANONYMOUS
from ..security.authorizer_settings import authority_of
from ..security.sasl.gates import check_sasl
from ..security.sealing import OLD_KEYS, SECRET_KEY, Sealing, refuse_missing_keys, sealing_of
from ..settings.broker_settings import BrokerSettings
from ..settings.listener_settings import (
    PROTOCOLS,
    SASL_PLAINTEXT,
    is_this_machine,
    security_protocol,
)
from ..settings.settings_sources import secrets_in_view
from ..tls.tls_settings import tls_settings
from .findings import Checked

AREA: Final = "security"
_IN_CLEAR: Final = ("PLAIN", "OAUTHBEARER")
"""Mechanisms whose messages hold the secret itself."""


def security_findings(
    settings: BrokerSettings, addresses: Sequence[ListenerAddress]
) -> Iterator[Checked]:
    """Yield the findings.

    addresses: the addresses of the listeners for clients.
    """
    try:
        check_sasl(settings, [each.name for each in addresses])
        authority = authority_of(settings, AclTable(), lambda: 0.0, None)
        nameless = [each.name for each in addresses if not _knows_clients(settings, each.name)]
    except SettingsError as error:
        yield Checked(AREA, "logins and rights can be read", False, str(error))
        return
    yield from _secrets_in_clear(settings, addresses)
    knowing = [each.name for each in addresses if each.name not in nameless]
    if authority is None:
        yield from _without_authorizer(knowing)
    else:
        yield from _rights(settings, nameless)


def command_line_finding(assignments: Sequence[str]) -> Checked:
    """Return a finding about secrets on the command line."""
    names = secrets_in_view(assignments)
    advice = (
        f"{', '.join(names)}: all users of this machine see it in `ps`; give it in a file of"
        " --config or --properties, in the environment, or as ${file:PATH:KEY} (docs/security.md)"
    )
    what = "no secret is on the command line"
    return Checked(AREA, what, not names, advice if names else "")


def scram_findings(state: ClusterState, settings: BrokerSettings) -> Iterator[Checked]:
    """Yield findings about the SCRAM credentials in the log.

    If there are none, only wrong settings for sealing are a finding.
    """
    try:
        sealing = sealing_of(settings, os.urandom)
    except SettingsError as error:
        yield Checked(AREA, "SCRAM credentials can be sealed", False, str(error))
        return
    if not (users := state.scram.users):
        return
    what = f"the SCRAM credentials of {len(users)} users can be read by gateways alone"
    try:
        refuse_missing_keys(sealing, state.scram)
    except SettingsError as error:
        yield Checked(AREA, what, False, str(error))
        return
    yield from _needing_old_keys(state, sealing)
    plain = {each.user for each in state.scram if isinstance(each, ScramCredential)}
    if not plain:
        yield Checked(AREA, what, True)
    elif not sealing.seals:
        advice = (
            f"those of {len(plain)} are plain in the metadata log, its snapshots and backups: set"
            f" {SECRET_KEY} (docs/operations/sasl.md)"
        )
        yield Checked(AREA, what, False, advice)
    else:
        advice = (
            f"those of {len(plain)} are plain: gateways that run with {SECRET_KEY} seal them once"
            f" the cluster is at {FEATURE_NAME} {SEALS}"
        )
        yield Checked(AREA, what, False, advice)


def _needing_old_keys(state: ClusterState, sealing: Sealing) -> Iterator[Checked]:
    old = {each.user for each in state.scram if sealing.needs_old_key(each)}
    if not old:
        return
    what = f"no SCRAM credential needs a key of {OLD_KEYS}"
    advice = f"those of {len(old)} users do: set their passwords again, or set {SECRET_KEY}"
    if sealing.seals:
        advice = (
            f"those of {len(old)} users are still sealed with a former key, so keep it: a gateway"
            f" with the new {SECRET_KEY} seals them anew when it starts, so restart one"
        )
    yield Checked(AREA, what, False, advice)


def _knows_clients(settings: BrokerSettings, listener: str) -> bool:
    """Return whether every client of a listener authenticates."""
    protection = PROTOCOLS[security_protocol(settings, listener)]
    if protection.is_sasl or not protection.is_tls:
        return protection.is_sasl
    return tls_settings(settings, listener).client_auth is ssl.CERT_REQUIRED


def _secrets_in_clear(
    settings: BrokerSettings, addresses: Sequence[ListenerAddress]
) -> Iterator[Checked]:
    for each in addresses:
        if security_protocol(settings, each.name) != SASL_PLAINTEXT:
            continue
        setting = "sasl.enabled.mechanisms"
        names = split_list(settings.listener_text(each.name, setting))
        clear = [name for name in _IN_CLEAR if name in names]
        is_good = not clear or is_this_machine(each.host)
        what = f"no password or token travels in clear at {each.name}"
        advice = (
            f"{' and '.join(clear)} without TLS: use SASL_SSL, or take them from"
            f" {listener_config(each.name, setting)}"
        )
        yield Checked(AREA, what, is_good, "" if is_good else advice)


def _without_authorizer(knowing: Sequence[str]) -> Iterator[Checked]:
    if knowing:
        advice = (
            f"clients log in at {', '.join(knowing)}, and then may do everything: set"
            " authorizer.class.name (docs/security.md)"
        )
        yield Checked(AREA, "clients have rights of their own", False, advice)


def _rights(settings: BrokerSettings, nameless: Sequence[str]) -> Iterator[Checked]:
    users = sorted(super_users_of(settings.text("super.users")))
    advice = "" if users else "name one in super.users: else no client may give rights"
    yield Checked(AREA, "there is a super user", bool(users), advice)
    foreign = [each for each in users if not each.startswith("User:")]
    if foreign:
        advice = f"{', '.join(foreign)}: every principal here begins with User:"
        yield Checked(AREA, "the super users can log in", False, advice)
    if ANONYMOUS in users and nameless:
        advice = (
            f"clients of {', '.join(nameless)} need no name, and may do everything: take"
            f" {ANONYMOUS} from super.users once the others have moved"
        )
        yield Checked(AREA, "only named clients are super users", False, advice)
    if settings.bool("allow.everyone.if.no.acl.found"):
        advice = (
            "a resource without ACLs is open to all: set allow.everyone.if.no.acl.found=false once"
            " each has its ACLs"
        )
        yield Checked(AREA, "what has no ACL is closed", False, advice)
