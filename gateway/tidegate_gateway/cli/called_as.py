"""What a person types to run another of our commands: as this one was called."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# Set by ./tidegate of a clone, behind which stands a program in .venv.  Not TIDEGATE_...: those are
# settings.
WRAPPER: Final = "_TIDEGATE"


def called_as(argv0: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return how to call us again from the same folder, as a shell reads it.

    Args:
      argv0: how this process was called.
    """
    if wrapper := environ.get(WRAPPER):
        return shlex.quote(wrapper)
    path = Path(argv0)
    if path.name == "__main__.py":
        return shlex.join([sys.executable, "-m", "tidegate_gateway"])
    found = shutil.which(path.name, path=environ.get("PATH", ""))
    if found is not None and path.exists() and os.path.samefile(found, path):
        return shlex.quote(path.name)
    return shlex.quote(argv0)
