"""A new operator on a bare Debian: types the commands of docs/operations/first-cluster.md.

    compat-tests/run newcomer

The root has Python, the wheels and Prometheus, and no network.  Each command must print what the
page shows.  A run takes some minutes.  Without root, mmdebstrap or Prometheus the program says that
it is skipped, and its exit status is 0.
"""

from __future__ import annotations

import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from harness import install
from harness.install import MissingTool
from harness.places import ROOT
from image.building import PACKAGES, SAY_VERSION, check_python_is, make_root
from image.machine import CannotRun, Failed, Machine, Say
from runner.result import Result
from runner.shared import NoOptions

from newcomer import wheels
from newcomer.page import Step, is_shown, steps_of
from newcomer.root import Shell, need

PAGE: Final = ROOT / "docs" / "operations" / "first-cluster.md"
FIRST_RECORDS: Final = "tidegate topic consume"
PATIENCE_SECONDS: Final = 180.0
LOOK_SECONDS: Final = 2.0


def main(options: NoOptions) -> Result:
    """Follow the page."""
    started = time.monotonic()

    def say(text: str) -> None:
        print(f"newcomer {time.monotonic() - started:5.0f} s: {text}", flush=True)

    try:
        need()
        # The folder is outside of this tree, since checks of the tree would read its files, too.
        with TemporaryDirectory(prefix="newcomer-") as folder:
            Path(folder).chmod(0o755)  # apt reads files as another user
            walk(prepared(Machine(Path(folder)), say), say)
    except (CannotRun, MissingTool) as error:
        say(f"skipped: {error}")
        return Result(is_good=True)
    except Failed as error:
        say(f"FAILED: {error}")
        return Result(is_good=False)
    say("each command printed what the page shows")
    return Result(is_good=True)


def prepared(machine: Machine, say: Say) -> Path:
    """Make the root file system with the programs that the page asks for; return its folder."""
    root, programs = machine.folder / "root", install.prometheus()
    folders = [machine.folder / each for each in ("wheels", "next-wheels")]
    with ThreadPoolExecutor() as pool:
        made = pool.submit(make_root, machine, root, PACKAGES)
        wheels.build(machine, *folders)
        say(f"{len(list(folders[0].iterdir()))} wheels")
        made.result()
    say(f"a bare Debian with {', '.join(PACKAGES)}")
    check_python_is(machine.run("chroot", str(root), *SAY_VERSION).strip())
    for each in folders:
        each.rename(root / "root" / each.name)
    for name in ("prometheus", "promtool"):
        shutil.copy(programs / name, root / "usr" / "local" / "bin" / name)
    return root


def walk(root: Path, say: Say) -> None:
    """Type all commands.

    Raises:
      Failed: the output of a command is not that of the page.
    """
    steps = list(steps_of(PAGE.read_text(encoding="utf-8")))
    began, typed = time.monotonic(), 0
    shell = Shell(root)
    try:
        for step in steps:
            before = time.monotonic()
            take(shell, step)
            typed += step.commands
            seconds = time.monotonic() - before
            say(f"{step.heading}: {step.name}: {seconds:.1f} s")
            if FIRST_RECORDS in step.typed and step.heading == "Records":
                say(f"first record read {time.monotonic() - began:.0f} s after the first command")
    finally:
        shell.stop()
    say(f"{typed} lines typed in {time.monotonic() - began:.0f} s")


def take(shell: Shell, step: Step) -> None:
    """Type a step.  Repeat a step that changes nothing until it shows the right thing.

    Raises:
      Failed: it prints something else.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        code, printed = shell.run(step.typed)
        if code == 0 and is_shown(step.shown, printed):
            return
        if not step.only_looks or time.monotonic() > deadline:
            raise Failed(
                f"{step.heading}: these commands\n{step.typed}\nended with {code} and printed\n"
                f"{printed}\ninstead of\n{step.shown}"
            )
        time.sleep(LOOK_SECONDS)
