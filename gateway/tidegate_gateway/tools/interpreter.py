"""The Python that runs this: whether it was built with profile-guided optimisation.

As a program, for .ci/venv.sh and for any Python, it prints how suitable its Python is to make an
environment from: 3 is best.  It fails where that is not possible, and with an argument, a version
such as 3.11.7, if its Python is older than that.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from importlib.util import find_spec

OLDEST = (3, 11)


def is_optimised() -> bool:
    """Return whether profiles optimised the interpreter's build, which makes it 1.2 times as fast.

    Debian builds with profiles, but without the option; it empties the variable of their flags.
    """
    options = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    is_of_debian = sysconfig.get_config_var("PGO_PROF_USE_FLAG") == ""
    return "--enable-optimizations" in options or is_of_debian


def compiles() -> bool:
    """Return whether Python's headers are there; True if there is no C compiler to need them."""
    compilers = (os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc", "gcc")
    if not any(shutil.which(str(each).split()[0]) for each in compilers if each):
        return True
    return os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))


def rank() -> int:
    """Return how suitable this Python is for an environment: compiled loops count more.

    Raises:
      ModuleNotFoundError: it makes no environments; Debian has them in a package of their own.
    """
    for name in ("venv", "ensurepip"):
        if find_spec(name) is None:
            raise ModuleNotFoundError(name)
    return 2 * compiles() + is_optimised()


if __name__ == "__main__":
    oldest = tuple(map(int, sys.argv[1].split("."))) if len(sys.argv) > 1 else OLDEST
    if sys.version_info[:3] < max(oldest, OLDEST):
        sys.exit(1)
    print(rank())
