"""The Python that runs this: whether it was built with profile-guided optimisation.

.ci/venv.sh runs this module as a program with any Python.  It prints how suitable this Python is to
make an environment from: 3 is best.  It fails if this Python cannot make an environment, or is
older than the version given as an argument, such as 3.11.7.
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

    Debian builds with profiles, but without the configure option; there the variable of the profile
    flags is empty.
    """
    options = str(sysconfig.get_config_var("CONFIG_ARGS") or "")
    is_of_debian = sysconfig.get_config_var("PGO_PROF_USE_FLAG") == ""
    return "--enable-optimizations" in options or is_of_debian


def compiles() -> bool:
    """Return whether Python's headers exist; True if no C compiler exists that would need them."""
    compilers = (os.environ.get("CC"), sysconfig.get_config_var("CC"), "cc", "gcc")
    if not any(shutil.which(str(each).split()[0]) for each in compilers if each):
        return True
    return os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))


def rank() -> int:
    """Return how suitable this Python is for an environment; that it can compile counts most.

    Raises:
      ModuleNotFoundError: this Python cannot make environments; Debian has venv in a separate
        package.
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
