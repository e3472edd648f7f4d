"""Stands in for test/service.py, which the source distribution leaves out.

Most tests of the suite talk to the broker that they are given.  The tests of logins and TLS start a
broker by the scripts of KAFKA_ROOT.
"""

import os
import re
import socket
import subprocess
import time
from pathlib import Path

POLL_SECONDS = 0.1
STOP_SECONDS = 30


class ExternalService:
    """A service that another process starts and stops."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """Do nothing: the service is open."""

    def start(self) -> None:
        """Do nothing: the service runs."""

    def stop(self) -> None:
        """It is not ours."""

    def close(self) -> None:
        """It is not ours."""

    def wait_for(self, pattern: str, timeout: float = 30) -> None:
        """Do nothing: the service is ready."""


class SpawnedService:
    """A broker as a process of its own.  command: its last word is the file with its settings."""

    def __init__(self, command: list[str], env: dict[str, str]) -> None:
        self._command, self._env = command, env
        self._settings = Path(command[-1]).read_text()
        self._log = Path(f"{command[-1]}.log")
        self._popen: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the broker."""
        with self._log.open("ab") as log:
            self._popen = subprocess.Popen(
                self._command, env=self._env, stdout=log, stderr=subprocess.STDOUT
            )

    def stop(self) -> None:
        """End the broker."""
        if self._popen is None:
            return
        self._popen.terminate()
        try:
            self._popen.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()

    def dump_logs(self) -> None:
        """Print the broker's output."""
        print(self._log.read_text(errors="replace"))

    def wait_for(self, pattern: str, timeout: float = 30) -> bool:
        """Wait until its listener is open; return False if the process ends, or after `timeout`.

        If `pattern` is about SCRAM, and ADD_SCRAM_USER is set, add the SCRAM user.
        """
        listener = re.search(r"^listeners=\w+://(\w+):(\d+)", self._settings, re.MULTILINE)
        assert listener is not None
        deadline = time.monotonic() + timeout
        while not _is_open(listener[1], int(listener[2])):
            assert self._popen is not None
            if self._popen.poll() is not None or time.monotonic() > deadline:
                return False
            time.sleep(POLL_SECONDS)
        if "Scram" in pattern and "ADD_SCRAM_USER" in os.environ:
            self._add_scram_user()
        return True

    def _add_scram_user(self) -> None:
        """Add the SCRAM user that Kafka adds when it formats its folder."""
        from kafka import KafkaAdminClient
        from kafka.admin import ScramMechanism, UserScramCredentialUpsertion

        settings = dict(each.split("=", 1) for each in self._settings.splitlines() if "=" in each)
        plain = settings["listeners"].rpartition("PLAINTEXT://")[2]
        mechanism = getattr(ScramMechanism, settings["sasl.enabled.mechanisms"].replace("-", "_"))
        with KafkaAdminClient(bootstrap_servers=plain) as admin:
            admin.alter_user_scram_credentials(
                [UserScramCredentialUpsertion("alice", mechanism, "alice-secret")]
            )


def _is_open(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=2):
            return True
    except OSError:
        return False
