"""Kafka's VerifiableProducer, idempotent.  It numbers records and prints the offset of each."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Final

from crash.ledger import Ledger
from harness import install

TOPIC: Final = "java"
PARTITIONS: Final = 3
RECORDS_PER_SECOND: Final = 500
_BEGIN_SECONDS: Final = 90.0
_POLL_SECONDS: Final = 0.1
_END_SECONDS: Final = 120.0
_WRITTEN: Final = "producer_send_success"
# By default the tool allows no retry.
_CONFIG: Final = """\
enable.idempotence=true
retries=2147483647
delivery.timeout.ms=120000
reconnect.backoff.max.ms=200
"""


class JavaWriter:
    """Writes until it is stopped."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self.ledger = Ledger()
        self._said = folder / "java.out"
        config = folder / "java.properties"
        config.write_text(_CONFIG)
        jars, tool = install.kafka_jars(), "org.apache.kafka.tools.VerifiableProducer"
        command = ["java", "-Xmx256m", "-cp", f"{jars}/*", tool, "--bootstrap-server", bootstrap]
        command += ["--topic", TOPIC, "--throughput", str(RECORDS_PER_SECOND), "--acks", "-1"]
        command += ["--command-config", str(config)]
        with self._said.open("wb") as out:
            self._popen = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL)

    def until_it_writes(self) -> None:
        """Wait for its first acknowledged record; on a busy machine Java starts slowly.

        Raises:
          TimeoutError: it wrote none in 90 s; it is stopped.
        """
        deadline = time.monotonic() + _BEGIN_SECONDS
        while _WRITTEN not in self._said.read_text():
            if time.monotonic() >= deadline:
                self._popen.kill()
                self._popen.wait()
                raise TimeoutError(f"Java's producer wrote nothing in {_BEGIN_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)

    def stop(self) -> None:
        """End it, once each record has an answer; then read its output."""
        self._popen.send_signal(signal.SIGTERM)
        try:
            self._popen.wait(_END_SECONDS)
        finally:
            self._popen.kill()
        for line in self._said.read_text().splitlines():
            if line.startswith("{"):
                self._note(json.loads(line))

    def _note(self, said: dict[str, object]) -> None:
        number = said.get("value")
        if said.get("name") == _WRITTEN:
            partition, offset = int(str(said["partition"])), int(str(said["offset"]))
            self.ledger.acknowledge(partition, offset, int(str(number)))
        elif said.get("name") == "producer_send_error":
            self.ledger.failed.append((int(str(number)), str(said.get("message"))))
