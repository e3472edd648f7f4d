"""Which variables tell of Kubernetes' Services, and so are no settings.

In every container kubelet sets them for each Service of the namespace ("service links", after
Docker's legacy links), unless the pod says enableServiceLinks: false.  A Service `tidegate` gives
TIDEGATE_SERVICE_HOST, TIDEGATE_SERVICE_PORT, TIDEGATE_SERVICE_PORT_<PORT'S NAME>, TIDEGATE_PORT,
TIDEGATE_PORT_9092_TCP and that one with _PROTO, _PORT and _ADDR; `tidegate-x` gives
TIDEGATE_X_SERVICE_HOST and so on.  A value is looked at, too, so that TIDEGATE_PORT=9092 of a
person who looks for `listeners` is still told of.
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
    """Tell whether a variable is one that kubelet sets for a Service."""
    return any(ours.fullmatch(name) and value.fullmatch(text) for ours, value in _BY_END)
