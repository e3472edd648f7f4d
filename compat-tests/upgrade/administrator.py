"""An administrator who runs the commands of the upgrade's page, each in a shell."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from faults.world import World
from harness.kafka_folder import kafka_folder
from harness.places import ROOT

from upgrade.guide import INSTALL, ONE_GATEWAY, commands, filled
from upgrade.releases import Release, environment

PAGE: Final = ROOT / "docs" / "operations" / "upgrade.md"
SECONDS: Final = 180.0


@dataclass(frozen=True, slots=True)
class Host:
    """A machine with its own virtual environment.  number: its gateway, or the one it works for."""

    name: str
    number: int

    @property
    def environment(self) -> Path:
        """Its virtual environment."""
        return environment(self.name)

    @property
    def python(self) -> Path:
        """The Python of this environment, with the installed release."""
        return self.environment / "bin" / "python"


@dataclass(frozen=True, slots=True)
class Answer:
    """The end of a command.  text: its output."""

    command: str
    code: int
    text: str


class CommandFailed(Exception):
    """A command of the page ended with an error.  The message has the command and its output."""


@dataclass(slots=True)
class Administrator:
    """Runs the page's commands.

    log: gets their output.  page: see guide.py.  world: None before it runs; then only INSTALL
    works.
    """

    log: Path
    page: Mapping[str, Sequence[str]] = field(
        default_factory=lambda: commands(PAGE.read_text(encoding="utf-8"))
    )
    kafka: Path = field(default_factory=kafka_folder)
    world: World | None = None

    def run(
        self,
        steps: Sequence[str],
        host: Host,
        release: Release,
        services: Mapping[str, Callable[[], None]],
    ) -> list[Answer]:
        """Run commands on a machine that has a release's wheel; return their output.

        services: stand-ins for calls of systemctl, by the whole command.

        Raises:
          CommandFailed: a command failed; later commands did not run.
        """
        answers: list[Answer] = []
        for step in steps:
            if step in services:
                services[step]()
                continue
            answers.append(self.ask(step, host, release))
            if answers[-1].code:
                raise CommandFailed(f"`{step}` ended with {answers[-1]}")
        return answers

    def ask(self, step: str, host: Host, release: Release) -> Answer:
        """Run one command on a machine, and return how it ended."""
        command = filled(step, self._names(host, release))
        paths = [str(host.environment / "bin"), str(self.kafka / "bin")]
        done = subprocess.run(
            ["sh", "-euc", command],
            cwd=release.folder,
            env={**os.environ, "PATH": os.pathsep.join([*paths, os.environ["PATH"]])},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )
        text = done.stdout.decode(errors="replace")
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {command}\n{text}")
        return Answer(step, done.returncode, text)

    def install(self, host: Host, release: Release) -> None:
        """Install a release on a machine.

        Raises:
          CommandFailed: it cannot be installed.
        """
        steps = [each for each in self.page[ONE_GATEWAY] if each.startswith(INSTALL)]
        self.run(steps, host, release, {})

    def _names(self, host: Host, release: Release) -> dict[str, str]:
        """Return the path in this test for each name in the page's commands."""
        names = {
            "/opt/tidegate": str(host.environment),
            "/opt/tidegate-next": str(environment("next")),
            "tidegate-0.1.0-py3-none-any.whl": release.wheel,
        }
        if self.world is None:
            return names
        gateway = self.world.gateways[host.number]
        clients = gateway.texts["advertised.listeners"].removeprefix("PLAINTEXT://")
        return names | {
            "URL": shlex.quote(self.world.database),
            "2": str(host.number),
            "gw-a.example:9092": clients,
            "gw-b.example:9644": f"127.0.0.1:{gateway.admin_port}",
            "/etc/tidegate/server.properties": str(gateway.settings),
            "/var/lib/tidegate": str(gateway.folder),
        }
