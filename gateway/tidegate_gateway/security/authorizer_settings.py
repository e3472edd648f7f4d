"""The settings of the authorizer, under Kafka's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidegate_coordination.security.authorizer import Authorizer, super_users_of
from tidegate_coordination.state.security.acls import AclTable
from tidegate_runtime.settings_texts import SettingsError

from ..audit import Audit
from ..settings.broker_settings import BrokerSettings
from .authority import Authority

STANDARD: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def authority_of(
    settings: BrokerSettings, acls: AclTable, now: Callable[[], float], audit: Audit | None
) -> Authority | None:
    """Return the authority that the settings configure; None if they name no authorizer.

    now, audit: see Authority.

    Raises:
      SettingsError: the text says what to set instead.
    """
    try:
        super_users = super_users_of(settings.text("super.users"))
    except ValueError as error:
        raise SettingsError(str(error)) from error
    allows_everyone = settings.bool("allow.everyone.if.no.acl.found")
    name = settings.text("authorizer.class.name")
    if not name:
        return None
    if name != STANDARD:
        raise SettingsError(
            f"authorizer.class.name={name} is a Java class, which gateways cannot run; they have"
            f" Kafka's own: {STANDARD}"
        )
    authorizer = Authorizer(acls.index, super_users, allows_everyone=allows_everyone)
    return Authority(acls, authorizer, now, audit)
