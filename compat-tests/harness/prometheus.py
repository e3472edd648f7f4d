"""A real Prometheus that scrapes gateways every second."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness import install
from harness.broker import fresh_folder
from harness.process import free_ports, spawn

READY_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 30.0
JOB: Final = "tidegate"

CONFIG: Final = """
global:
  scrape_interval: 1s
  scrape_timeout: 1s
  evaluation_interval: 1s
scrape_configs:
  - job_name: {job}
    static_configs:
      - targets: {targets}
"""
RULES: Final = """
rule_files: ["rules.yaml"]
"""


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running server."""

    url: str

    def get(self, path: str, **query: str) -> Any:
        """Return the data of an answer of its API.

        Raises:
          urllib.error.HTTPError: it refuses the query.
        """
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=ANSWER_SECONDS) as answer:
            return json.load(answer)["data"]

    def query(self, query: str) -> list[Any]:
        """Return the samples that a query finds now."""
        found: list[Any] = self.get("query", query=query)["result"]
        return found

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire now."""
        alerts = self.get("alerts")["alerts"]
        return {each["labels"]["alertname"] for each in alerts if each["state"] == "firing"}

    def is_ready(self) -> bool:
        """Return whether it answers."""
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=ANSWER_SECONDS) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def running(target: str, *others: str, rules: str = "") -> Iterator[Prometheus]:
    """Scrape each host:port.  rules: the text of alerts.

    Raises:
      MissingTool: there is no Prometheus.
    """
    program = install.prometheus() / "prometheus"
    folder = fresh_folder("prometheus")
    config = CONFIG.format(job=JOB, targets=json.dumps([target, *others])) + (
        RULES if rules else ""
    )
    (folder / "prometheus.yaml").write_text(config)
    (folder / "rules.yaml").write_text(rules)
    [port] = free_ports(1)
    process = spawn(_command(program, folder, port), folder / "prometheus.log", cwd=folder)
    server = Prometheus(f"http://127.0.0.1:{port}")
    try:
        process.wait_until(server.is_ready, READY_SECONDS)
        yield server
    finally:
        process.stop()
        shutil.rmtree(folder / "data", ignore_errors=True)


def _command(program: Path, folder: Path, port: int) -> list[str | Path]:
    return [
        program,
        f"--config.file={folder / 'prometheus.yaml'}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
