"""One resident Spark session: its settings, its start in a folder of its own, its end.

    local[N]     a JVM on this machine, on loopback and small: record bytes never pass through it;
                 it inherits no settings for Spark from the environment
    any other    the cluster's own settings hold; Tidegate sets only those of its tasks
    spark-submit the existing session, as spark-submit set it up

Every call blocks: call it in a thread.  A session that is made outside the main thread does not
replace the process's signal handlers; that is intended, since the command handles signals.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Final

import structlog
from pyspark import SparkConf, SparkContext, java_gateway
from pyspark.sql import SparkSession

from ..tasks.error_texts import error_text
from .arrow_rows import Batch, cells_of, table_of
from .java import find_java, pid_of_java, write_wrapper
from .java_output import JavaOutput, how_it_ended
from .spark_task import RESULT_COLUMN, RESULT_SCHEMA, TASK_COLUMN
from .spark_texts import java_note
from .submitted import is_submitted

_java_gateway: Any = java_gateway  # PySpark has few type hints
_log = structlog.get_logger("tidegate.pipeline.spark")

APP_NAME: Final = "tidegate-pipeline"
# A path of a Unix socket holds about 100 characters; Spark adds a UUID and an ending.
MAX_SOCKET_FOLDER_CHARACTERS: Final = 60
JVM_END_SECONDS: Final = 10.0
# A task reads and writes some 128 MiB, or compacts one partition.
SLOW_TASK: Final = "120s"

# Settings for a cluster, or for another Spark on this machine, break the Spark of local[N]: for
# example other Pythons and releases, or event logs in missing folders.
_OF_OTHER_SPARKS: Final = ("SPARK_", "PYSPARK_")

_LOG4J: Final = """\
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = {level}
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %-5p %c{{1}}: %m%n%ex{{short}}
"""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """master: as Spark's; "" for local[one a core].  max_failures: the most failures of one task.

    speculation: run slow tasks once more, on another machine; never where there is only one.
    log_level: of a local Spark's own log, whose end is shown when Spark fails.
    """

    master: str = ""
    max_failures: int = 4
    speculation: bool = False
    heap: str = "512m"
    log_level: str = "error"

    @property
    def spark_master(self) -> str:
        """Return the master as Spark needs it: a local one retries only if its text says so."""
        wanted = self.master or "local[*]"
        found = re.fullmatch(r"local(?:\[(\d+|\*)\])?", wanted)
        return f"local[{found[1] or 1},{self.max_failures}]" if found is not None else wanted

    @property
    def is_local(self) -> bool:
        """Return whether Spark runs on this machine alone."""
        return not self.master or self.master.startswith("local")


class RunningSpark:
    """A session, and what its JVM prints; folder: where it lives, None under spark-submit."""

    def __init__(
        self, session: SparkSession, output: JavaOutput, folder: Path | None = None
    ) -> None:
        context: Any = type(session.sparkContext)
        self.session = session
        self.python = str(session.sparkContext.pythonExec)
        self._output = output
        self._folder = folder
        self._java: Any = context._gateway.proc  # None under spark-submit
        self._is_told = False

    def slots(self) -> int:
        """Return the number of tasks that can run at once; see spark.default.parallelism."""
        return self.session.sparkContext.defaultParallelism

    def is_alive(self) -> bool:
        """Return whether the session can still run jobs."""
        context: Any = self.session.sparkContext
        try:
            return not context._jsc.sc().isStopped()
        except Exception:
            return False  # the JVM has ended

    def last_words(self) -> list[str]:
        """Return how the JVM ended, after its last lines; once, and nothing while it lives."""
        if self._java is None or self._is_told or self.is_alive():
            return []
        self._is_told = True
        return [*self._output.last_lines(), how_it_ended(self._java)]

    def run_rows(
        self, row: bytes, function: Callable[[Iterator[Batch]], Iterator[Batch]]
    ) -> list[bytes]:
        """Run a function over one row, as a job; return its rows."""
        session: Any = self.session
        frame = session.createDataFrame(table_of(TASK_COLUMN, [row]))
        return cells_of(RESULT_COLUMN, frame.mapInArrow(function, RESULT_SCHEMA).toArrow())

    def close(self) -> None:
        """Stop the session and its own JVM; each step runs even if another fails."""
        context: Any = type(self.session.sparkContext)
        with ExitStack() as stack:
            if self._folder is not None:
                stack.callback(shutil.rmtree, self._folder, ignore_errors=True)
                stack.callback(_end_jvm, context._gateway)
                # This makes the next session start a new JVM.
                context._gateway = context._jvm = None
            _stop(self.session)


def _stop(session: SparkSession) -> None:
    """Stop a session, even one whose JVM has ended: then its own stop() does only a part."""
    try:
        session.stop()
    except Exception:
        session.sparkContext.stop()
        kind: Any = SparkSession
        kind._instantiatedSession = kind._activeSession = None
        raise


class ResidentSpark:
    """The session of this process: started when it is needed, and again if its JVM has ended."""

    def __init__(self, settings: SparkSettings) -> None:
        self._settings = settings
        self._running: RunningSpark | None = None
        self._folder: Path | None = None
        self._lock = Lock()

    def running(self) -> RunningSpark:
        """Return the session; starting it takes 4 to 10 s.

        Raises:
          NoJava: no Java was found.
          Exception: Spark did not start.
        """
        with self._lock:
            if self._running is not None and not self._running.is_alive():
                words = self._running.last_words()
                _log.warning(
                    "Spark is gone; starting it again", **({"java": words} if words else {})
                )
                self._close()
            if self._running is None:
                if not is_submitted(os.environ):
                    self._folder = Path(tempfile.mkdtemp(prefix="tg-spark-"))
                self._running = start_spark(self._settings, self._folder)
            return self._running

    def kill(self) -> None:
        """End the JVM, so that calls to it fail, even while it starts or does not answer.

        Under spark-submit the JVM is the parent process, so this ends our process instead.
        """
        if is_submitted(os.environ):
            _log.warning("Spark does not stop; ending the process")
            os._exit(1)
        # Do not take the lock: its holder may wait for this JVM.
        pid = pid_of_java(self._folder) if self._folder is not None else None
        if pid is not None:
            _log.warning("Spark does not stop; killing its JVM", pid=pid)
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def close(self) -> None:
        """Stop the session, if it runs."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            try:
                running.close()
            except Exception as error:
                _log.warning("Spark did not stop cleanly", error=error_text(error))


def _end_jvm(gateway: Any) -> None:
    """Close the JVM's standard input, at which it ends, and wait for its end."""
    try:
        gateway.shutdown()
    finally:
        gateway.proc.stdin.close()
        try:
            gateway.proc.wait(JVM_END_SECONDS)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()
            gateway.proc.wait()


def start_spark(settings: SparkSettings, folder: Path | None) -> RunningSpark:
    """Start Spark in a folder; without one, take the session that spark-submit set up.

    An error gets the last lines of the JVM as a note.
    """
    output = JavaOutput(is_shown=not settings.is_local)
    if folder is None:
        return RunningSpark(SparkSession.builder.appName(APP_NAME).getOrCreate(), output)
    try:
        return RunningSpark(_started(settings, folder, output), output, folder)
    except BaseException as error:
        _end_half_started()
        _end_unstarted(error)
        shutil.rmtree(folder, ignore_errors=True)
        if lines := output.last_lines():
            error.add_note(java_note(lines))
        raise


def _end_half_started() -> None:
    """End a JVM that has no session: the next start would use it for its session."""
    context: Any = SparkContext
    gateway, context._gateway, context._jvm = context._gateway, None, None
    if gateway is not None:
        try:
            _end_jvm(gateway)
        except Exception as error:
            _log.info("the JVM did not end cleanly", error=error_text(error))


def _end_unstarted(error: BaseException) -> None:
    """Close the pipe to a JVM that ended while it started: only PySpark's frame refers to it."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        process = frame.f_locals.get("proc")
        if isinstance(process, subprocess.Popen):
            if process.stdin is not None:
                process.stdin.close()
            process.kill()
            process.wait()


def _started(settings: SparkSettings, folder: Path, output: JavaOutput) -> SparkSession:
    conf = SparkConf().setAppName(APP_NAME).setMaster(settings.spark_master)
    configs = configs_of(settings) | (_local_configs(settings, folder) if settings.is_local else {})
    conf.setAll(list(configs.items()))
    context: Any = SparkContext
    with _environment(settings, folder):
        # Start the JVM as the session would, except that the session would give it our own outputs.
        with output.writable() as pipe:
            context._gateway = _java_gateway.launch_gateway(conf, {"stdout": pipe, "stderr": pipe})
        context._jvm = context._gateway.jvm
        return SparkSession.builder.config(conf=conf).getOrCreate()


@contextmanager
def _environment(settings: SparkSettings, folder: Path) -> Generator[None, None, None]:
    """Set variables that Spark's start reads only from the environment; undo them afterwards."""
    wanted = {"JAVA_HOME": str(write_wrapper(find_java(os.environ), folder))}
    dropped: list[str] = []
    if settings.is_local:
        dropped = [name for name in os.environ if name.startswith(_OF_OTHER_SPARKS)]
        wanted |= _local_environment(folder)
    else:
        wanted["PYSPARK_PYTHON"] = os.environ.get("PYSPARK_PYTHON", sys.executable)
    before = {name: os.environ.get(name) for name in {*wanted, *dropped}}
    for name in dropped:
        del os.environ[name]
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, text in before.items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text


def _local_environment(folder: Path) -> dict[str, str]:
    """Return the environment of this process's own Spark, without default settings."""
    conf = folder / "conf"
    conf.mkdir(exist_ok=True)
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(conf),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def configs_of(settings: SparkSettings) -> dict[str, str]:
    """Return the settings that tasks need on any master."""
    configs = {
        "spark.task.maxFailures": str(settings.max_failures),
        "spark.speculation": str(settings.speculation).lower(),
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.ui.showConsoleProgress": "false",
    }
    if settings.speculation:
        # Each job has one task, so Spark has no other tasks to compare its duration with.
        configs["spark.speculation.task.duration.threshold"] = SLOW_TASK
    return configs


def _local_configs(settings: SparkSettings, folder: Path) -> dict[str, str]:
    log4j = folder / "log4j2.properties"
    log4j.write_text(_LOG4J.format(level=settings.log_level), encoding="utf-8")
    sockets = folder / "s"
    sockets.mkdir()
    options = (
        f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dlog4j2.configurationFile=file:{log4j}"
        f" -Dderby.system.home={folder}"
    )
    return {
        "spark.ui.enabled": "false",
        # Every user of this machine can reach loopback; Spark generates the secret.
        "spark.authenticate": "true",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": settings.heap,
        "spark.driver.extraJavaOptions": options,
        "spark.local.dir": str(folder / "local"),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.unix.domain.socket.dir": str(sockets),
        "spark.python.unix.domain.socket.enabled": str(
            len(str(sockets)) <= MAX_SOCKET_FOLDER_CHARACTERS
        ).lower(),
        "spark.sql.artifact.isolation.enabled": "false",
    }
