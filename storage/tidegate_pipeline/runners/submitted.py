"""Whether spark-submit started this process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# spark-submit leaves this in the environment of the Python process that it starts.
_GATEWAY_PORT: Final = "PYSPARK_GATEWAY_PORT"


def is_submitted(environ: Mapping[str, str]) -> bool:
    """Return whether spark-submit started this process."""
    return _GATEWAY_PORT in environ
