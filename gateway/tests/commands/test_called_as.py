"""An operator can type the commands that texts show, as they are shown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tidegate_gateway.cli.called_as import called_as


def test_how_we_were_called_is_how_we_are_called_again(tmp_path: Path) -> None:
    program = tmp_path / "a b" / "tidegate"
    program.parent.mkdir()
    program.touch(mode=0o755)
    on_path = {"PATH": str(program.parent)}

    assert called_as("/x/.venv/bin/tidegate", {"_TIDEGATE": "./tidegate"}) == "./tidegate"
    assert called_as(str(program), on_path) == "tidegate"
    assert called_as(str(program), {"PATH": "/nowhere"}) == f"'{program}'"
    assert called_as("/x/tidegate", on_path) == "/x/tidegate"
    assert called_as("/x/tidegate_gateway/__main__.py", on_path) == (
        f"{sys.executable} -m tidegate_gateway"
    )


def test_the_script_of_a_clone_tells_how_it_was_called(tmp_path: Path) -> None:
    root = tmp_path / "clone"
    (root / ".ci").mkdir(parents=True)
    (root / ".venv/bin").mkdir(parents=True)
    (root / ".ci/venv.sh").write_text("make_venv() { :; }\n")
    inner = root / ".venv/bin/tidegate"
    inner.write_text('#!/bin/sh\necho "$_TIDEGATE $*"\n')
    inner.chmod(0o755)
    script = Path(__file__).parents[3] / "tidegate"
    (root / "tidegate").write_bytes(script.read_bytes())
    (root / "tidegate").chmod(0o755)
    done = subprocess.run(
        ["./tidegate", "dev"], cwd=root, capture_output=True, text=True, check=True
    )
    assert done.stdout == "./tidegate dev\n"
