"""The program's name for a further tidegate command: the name by which this one was called."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

# The script ./tidegate of a clone sets this variable, since it runs a program in .venv.  The name
# does not begin with TIDEGATE_, as the names of settings do.
WRAPPER: Final = "_TIDEGATE"


def called_as(argv0: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the program's name for a call from the same folder, quoted for a shell.

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
