"""deploy/systemd: a booted systemd runs the unit, its sandbox and its watchdog included."""

from __future__ import annotations

import time
from typing import Final

from crash.load import Production, Worker, create_topic
from harness.places import ROOT

from image.building import build_base
from image.gateway import check_records, must, wait_for_records, wait_until, working
from image.machine import Machine, Say

BASE: Final = "localhost/systemd-base:check"
NAME: Final = "systemd-check"
PACKAGES: Final = ("systemd", "systemd-sysv", "dbus", "python3", "python3-venv")
PORT: Final = 9092
# Enough for WatchdogSec=, half of it between two watchdog messages, and a restart.
STALL_SECONDS: Final = 60.0
INSTALL: Final = """\
set -eu
python3 -m venv /opt/tidegate
/opt/tidegate/bin/pip install -q --no-index --find-links /wheels 'tidegate[postgres]'
cd /deploy
install -D -m 0644 systemd/tidegate.sysusers.conf /etc/sysusers.d/tidegate.conf
install -D -m 0644 systemd/tidegate.tmpfiles.conf /etc/tmpfiles.d/tidegate.conf
systemd-sysusers
systemd-tmpfiles --create tidegate.conf
install -m 0644 systemd/tidegate.service /etc/systemd/system/
touch /etc/tidegate/secrets
cat > /etc/tidegate/server.properties <<'END'
listeners=PLAINTEXT://0.0.0.0:{port}
advertised.listeners=PLAINTEXT://{host}:{port}
allow.plaintext.listeners=true
admin.listener=127.0.0.1:9644
disk.cache.dir=/var/cache/tidegate/segments
END
chgrp tidegate /etc/tidegate/*
chmod 0640 /etc/tidegate/*
systemctl daemon-reload
"""


class System:
    """A container that systemd runs."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        folders = (f"{machine.folder / 'context' / 'wheels'}:/wheels", f"{ROOT / 'deploy'}:/deploy")
        volumes = [f"--volume={each}:ro" for each in folders]
        words = ("--detach", f"--name={NAME}", "--privileged", "--systemd=always", *volumes)
        machine.podman("run", *words, BASE, "/sbin/init")
        wait_until(lambda: self.shell("systemctl is-system-running") == "running", self.journal)
        address = "{{.NetworkSettings.IPAddress}}"
        host = machine.podman("inspect", "--format", address, NAME).strip()
        self.bootstrap = f"{host}:{PORT}"
        self.shell(INSTALL.format(host=host, port=PORT), code=0)

    def shell(self, script: str, code: int | None = None) -> str:
        """Run a script in the container; return its output."""
        return self._machine.podman("exec", NAME, "sh", "-c", script, code=code).strip()

    def fact(self, name: str) -> str:
        """Return a property of the unit."""
        return self.shell(f"systemctl show --property {name} --value tidegate")

    def journal(self) -> str:
        """Return the end of the unit's log."""
        return self.shell("journalctl --no-pager --lines 60 --unit tidegate")

    def remove(self) -> None:
        """Remove it."""
        self._machine.podman("rm", "--force", "--time=1", NAME)


def check_unit(machine: Machine, say: Say) -> None:
    """Start, serve, stall, serve, stop."""
    build_base(machine, BASE, PACKAGES)
    system = System(machine)
    system.shell("systemctl start tidegate", code=0)
    must("systemctl start waits for READY", system.fact("StatusText") == "serving clients")
    status = system.shell("cat /proc/$(systemctl show -P MainPID tidegate)/status")
    must("the system calls are filtered", "Seccomp:\t2" in status)
    must("the user is not root", "Uid:\t0" not in status)
    create_topic(system.bootstrap)
    production = Production(system.bootstrap)
    with working(Worker(production)):
        wait_for_records(production)
        stall(system, say)
        wait_for_records(production)
    check_records(production, system.bootstrap, say)
    system.shell("systemctl stop tidegate", code=0)
    facts = {each: system.fact(each) for each in ("ActiveState", "Result", "ExecMainStatus")}
    wanted = {"ActiveState": "inactive", "Result": "success", "ExecMainStatus": "0"}
    must("systemctl stop ends it with exit code 0", facts == wanted, facts)
    system.remove()


def stall(system: System, say: Say) -> None:
    """Stop the process (SIGSTOP); systemd must kill it and start it again."""
    before = time.monotonic()
    system.shell("kill -STOP $(systemctl show -P MainPID tidegate)", code=0)
    wait_until(lambda: system.fact("NRestarts") == "1", system.journal)
    wait_until(lambda: system.fact("StatusText") == "serving clients", system.journal)
    seconds = time.monotonic() - before
    journal = system.journal()
    must("the watchdog ended it", "result 'watchdog'" in journal, journal)
    must("the log has the threads' places", "most recent call first" in journal)
    must("it serves again soon", seconds < STALL_SECONDS, seconds)
    say(f"a stalled gateway was ended by the watchdog, and served again after {seconds:.0f} s")
