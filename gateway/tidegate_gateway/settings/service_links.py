"""Recognizes environment variables that describe Kubernetes Services, and are no settings.

Kubelet sets them in every container, for each Service of the namespace ("service links", after
Docker's legacy links), unless the pod has enableServiceLinks: false.  A Service `tidegate` gives
TIDEGATE_SERVICE_HOST, TIDEGATE_SERVICE_PORT, TIDEGATE_SERVICE_PORT_<PORT'S NAME>, TIDEGATE_PORT,
TIDEGATE_PORT_9092_TCP, and the last with _PROTO, _PORT and _ADDR.  A Service `tidegate-x` gives
TIDEGATE_X_SERVICE_HOST and so on.  A variable must also have a value of the form that
kubelet gives it.  So TIDEGATE_PORT=9092, set by a person who means `listeners`, is still
refused as an unknown setting.
"""

from __future__ import annotations

import re
from typing import Final

_URL: Final = re.compile(r"(tcp|udp|sctp)://\S+", re.IGNORECASE)
_NUMBER: Final = re.compile(r"\d+")
_WORD: Final = re.compile(r"\S+")

_BY_END: Final = (
    (re.compile(r".+_SERVICE_HOST"), _WORD),
    (re.compile(r".+_SERVICE_PORT(_[A-Z0-9_]+)?"), _NUMBER),
    (re.compile(r".+_PORT"), _URL),
    (re.compile(r".+_PORT_\d+_(TCP|UDP|SCTP)"), _URL),
    (re.compile(r".+_PORT_\d+_(TCP|UDP|SCTP)_(PROTO|PORT|ADDR)"), _WORD),
)
"""(name, value) as kubelet makes them."""


def is_service_link(name: str, text: str) -> bool:
    """Return whether a variable is one that kubelet sets for a Service."""
    return any(ours.fullmatch(name) and value.fullmatch(text) for ours, value in _BY_END)
