"""testcontainers and the image: a test suite of Python uses it through podman's socket."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from harness.places import HERE, ROOT
from harness.process import StartFailed, spawn

from image.building import TIDEGATE
from image.gateway import must
from image.machine import Failed, Machine, Say

SUITE: Final = HERE / "image" / "container_suite.py"
PAGE: Final = ROOT / "docs" / "testing.md"
EXAMPLES: Final = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SERVICE_SECONDS: Final = 30.0
SUITE_SECONDS: Final = 300.0


def check_containers(machine: Machine, say: Say) -> None:
    """Run our suite and the example of the page; no container is left."""
    folder = machine.folder / "page"
    folder.mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    page = folder / "test_page.py"
    page.write_text(example(TIDEGATE), encoding="utf-8")
    with serving(machine) as host:
        for path in (SUITE, page):
            say(f"{path.name}: {run_suite(path, host)}")
    left = machine.podman("ps", "--all", "--quiet").split()
    must("no container is left", not left, left)


def example(image: str) -> str:
    """Return the page's example, with another image."""
    (found,) = (text for text in EXAMPLES.findall(PAGE.read_text()) if "TidegateContainer" in text)
    return re.sub(r"localhost/tidegate:[\d.]+", image, found)


@contextmanager
def serving(machine: Machine) -> Generator[str]:
    """Run podman's service; yield its address.

    Raises:
      Failed: it does not start.
    """
    socket = machine.folder / "podman.sock"
    words = ("podman", "system", "service", "--time", "0", f"unix://{socket}")
    service = spawn(words, machine.folder / "service.log", env=machine.environ)
    try:
        service.wait_until(socket.exists, SERVICE_SECONDS)
        yield f"unix://{socket}"
    except StartFailed as error:
        raise Failed(f"podman's service {error}") from error
    finally:
        service.stop()


def run_suite(path: Path, host: str) -> str:
    """Run a file of tests; return pytest's summary.

    Raises:
      Failed: a test fails, or the file has no tests.
    """
    environ = {
        "DOCKER_HOST": host,
        "IMAGE": TIDEGATE,
        # Ryuk, the container that removes others, would be pulled from a registry.
        "TESTCONTAINERS_RYUK_DISABLED": "true",
        # If this machine is a container itself, testcontainers would look for the engine outside.
        "TESTCONTAINERS_CONNECTION_MODE": "docker_host",
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(path)],
        cwd=path.parent,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=SUITE_SECONDS,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{path.name}:\n{done.stdout[-6000:]}{done.stderr[-2000:]}")
    return done.stdout.splitlines()[-1]
