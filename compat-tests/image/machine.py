"""The tools that build and run containers, with their storage in a folder of this run.

The settings suit a machine without a desktop session, without cgroups v2, and without the right to
raise limits, such as that of a CI job.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PACKAGES: Final = (
    "mmdebstrap",
    "buildah",
    "podman",
    "runc",
    "podman-compose",
    "golang-github-containernetworking-plugin-dnsname",
)
PROGRAMS: Final = ("mmdebstrap", "buildah", "podman", "runc", "podman-compose")
DNS: Final = Path("/usr/lib/cni/dnsname")
RELEASE: Final = Path("/etc/os-release")
# vfs copies a whole image for each container. overlay cannot lie on another overlay.
DRIVERS: Final = ("overlay", "vfs")
COMMAND_SECONDS: Final = 600.0

_ENGINE: Final = """\
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_config_dir = "{folder}/networks"
"""
_STORAGE: Final = """\
[storage]
driver = "{driver}"
graphroot = "{folder}/storage"
runroot = "{folder}/run"
"""

Say = Callable[[str], None]


class CannotRun(Exception):
    """This machine lacks a program that cannot be installed; the text names it."""


class Failed(Exception):
    """A command or a promise failed; the text says how."""


def install(say: Say) -> None:
    """Install the Debian packages that are missing.

    Raises:
      CannotRun: see there.
    """
    if sys.platform != "linux" or os.geteuid() != 0:
        raise CannotRun("containers are built and run by root, on Linux")
    if not missing():
        return
    if shutil.which("apt-get") is None or codename() == "":
        raise CannotRun(f"{', '.join(missing())} are missing, and there is no apt-get")
    say(f"installing {' '.join(PACKAGES)}")
    quiet = {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (("update",), ("install", "--yes", "--no-install-recommends", *PACKAGES)):
        done = _run(["apt-get", "--quiet", *words], quiet)
        if done.returncode:
            raise CannotRun(f"apt-get {words[0]} failed: {done.stderr.strip()[-300:]}")


def missing() -> list[str]:
    """Return the programs that are not here."""
    found = [each for each in PROGRAMS if shutil.which(each) is None]
    return found if DNS.exists() else [*found, DNS.name]


def codename() -> str:
    """Return the name of Debian's release here; "" for another system."""
    text = RELEASE.read_text(encoding="utf-8") if RELEASE.exists() else ""
    facts = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    return facts.get("VERSION_CODENAME", "").strip('"') if facts.get("ID") == "debian" else ""


@dataclass(frozen=True, slots=True)
class Machine:
    """Runs the tools.  folder: holds all that they keep."""

    folder: Path

    def prepare(self) -> None:
        """Write the tools' settings.

        Raises:
          CannotRun: podman does not run here.
        """
        (self.folder / "networks").mkdir(parents=True)
        engine = _ENGINE.format(folder=self.folder)
        (self.folder / "containers.conf").write_text(engine, encoding="utf-8")
        for driver in DRIVERS:
            storage = _STORAGE.format(folder=self.folder, driver=driver)
            self._storage.write_text(storage, encoding="utf-8")
            if self.succeeds("podman", "info"):
                return
        raise CannotRun("podman has no storage here")

    @property
    def environ(self) -> dict[str, str]:
        """The environment of the tools."""
        return {
            "CONTAINERS_CONF": str(self.folder / "containers.conf"),
            "CONTAINERS_STORAGE_CONF": str(self._storage),
        }

    @property
    def _storage(self) -> Path:
        return self.folder / "storage.conf"

    def podman(self, *words: str, code: int | None = 0) -> str:
        """Run podman; see run()."""
        return self.run("podman", *words, code=code)

    def run(
        self,
        *words: str,
        cwd: Path | None = None,
        code: int | None = 0,
        environ: Mapping[str, str] | None = None,
    ) -> str:
        """Run a command, return its output.  code: the wanted exit code, None for any.

        Raises:
          Failed: it ended with another exit code.
        """
        done = _run(list(words), self.environ | dict(environ or {}), cwd)
        if code is not None and done.returncode != code:
            printed = f"{done.stdout[-2000:]}{done.stderr[-2000:]}"
            raise Failed(f"{' '.join(words)[:300]}\nended with {done.returncode}:\n{printed}")
        return done.stdout

    def succeeds(self, *words: str) -> bool:
        """Run a command, return whether its exit code is 0."""
        return _run(list(words), self.environ).returncode == 0

    def clear(self) -> None:
        """Remove all containers, images and networks of this run."""
        # Without the settings of this run podman would remove all containers of the machine.
        if self._storage.exists():
            self.podman("rm", "--all", "--force", "--time", "1", "--volumes", code=None)
            for name in self.podman("network", "ls", "--format", "{{.Name}}", code=None).split():
                if name != "podman":
                    self.podman("network", "rm", "--force", name, code=None)
        shutil.rmtree(self.folder, ignore_errors=True)


def _run(
    words: list[str], environ: Mapping[str, str], cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=cwd,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
