"""An older release of this repository, installed beside it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.places import ROOT, WORK

_INSTALL = 'root=$1; . "$root/.ci/venv.sh"; make_venv postgres'


def older_release(commit: str) -> Path:
    """Return the Python that has the release of a commit; installs it the first time.

    Raises:
      CalledProcessError: there is no such commit here, or it cannot be installed.
    """
    name = _output("git", "rev-parse", "--short=12", f"{commit}^{{commit}}").strip().decode()
    tree = WORK / f"release-{name}"
    if not tree.exists():
        made = WORK / f"release-{name}.part"
        made.mkdir(parents=True, exist_ok=True)
        files = _output("git", "archive", name)
        subprocess.run(["tar", "-x", "-C", str(made)], input=files, check=True)
        made.rename(tree)
    subprocess.run(["sh", "-euc", _INSTALL, "sh", str(tree)], cwd=tree, check=True)
    return tree / ".venv" / "bin" / "python"


def _output(*command: str) -> bytes:
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
