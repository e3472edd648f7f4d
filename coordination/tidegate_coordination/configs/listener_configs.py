"""Broker configs of one listener: Kafka's `listener.name.<listener>.` before the name.

Those of SASL may have a mechanism between, as listener.name.x.plain.sasl.jaas.config (KIP-226);
listener and mechanism are written in lower case.  A gateway reads all of them once.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from .broker_configs import BROKER_CONFIGS
from .definition import Definition, Update

LISTENER_PREFIX: Final = "listener.name."
_NAME: Final = re.compile(
    r"listener\.name\.(?P<listener>[a-z0-9_]+)\.(?:(?P<mechanism>[a-z0-9-]+)\.)?"
    r"(?P<base>(?:sasl|ssl|connections|principal)\..+)"
)
OF_LISTENERS: Final = frozenset(
    name
    for name in BROKER_CONFIGS
    if name.startswith(("sasl.", "ssl."))
    or name in {"connections.max.reauth.ms", "principal.builder.class"}
)
_OF_MECHANISMS: Final = frozenset(
    name for name in OF_LISTENERS if name.startswith("sasl.") or name == "connections.max.reauth.ms"
) - {"sasl.enabled.mechanisms"}


def listener_config(listener: str, name: str, mechanism: str = "") -> str:
    """Return the name of a config of one listener, and of one mechanism of it."""
    between = f"{mechanism.lower()}." if mechanism else ""
    return f"{LISTENER_PREFIX}{listener.lower()}.{between}{name}"


def static_definition(name: str) -> Definition | None:
    """Return the definition of a static setting, by its whole name; None if there is none."""
    found = BROKER_CONFIGS.get(name)
    if found is not None or not name.startswith(LISTENER_PREFIX):
        return found
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    allowed = OF_LISTENERS if match["mechanism"] is None else _OF_MECHANISMS
    if match["base"] not in allowed:
        return None
    base = BROKER_CONFIGS[match["base"]]
    return replace(base, name=name, default=None, update=Update.READ_ONLY)
