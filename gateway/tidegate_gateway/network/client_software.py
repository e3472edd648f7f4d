"""The name and version of its software that a client sends in ApiVersions (KIP-511).  Pure."""

from __future__ import annotations

import re
from typing import Final

from tidegate_protocol.messages.api_versions import ApiVersionsRequest

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
TOLD_SINCE: Final = 3
MAX_CHARACTERS: Final = 50
"""Kept of each name: clients choose them."""


def software_of(request: ApiVersionsRequest, version: int) -> tuple[str, str]:
    """Return the name and version of a valid request, cut to a limit; ("", "") if it has none."""
    if version < TOLD_SINCE:
        return "", ""
    name, release = request.client_software_name, request.client_software_version
    return name[:MAX_CHARACTERS], release[:MAX_CHARACTERS]


def is_well_told(request: ApiVersionsRequest, version: int) -> bool:
    """Return whether Kafka would accept the request's name and version."""
    if version < TOLD_SINCE:
        return True
    name, release = request.client_software_name, request.client_software_version
    return bool(_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(release))
