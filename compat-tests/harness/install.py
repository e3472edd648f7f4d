"""Recipes that fetch published packages, each by its ordinary client, once, below .work.

Each returns the folder of its package.  A recipe runs again when its stamp (versions) changed.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from harness import places
from harness.places import HERE, WORK
from harness.process import Command

# The timeout of one command.  A test that takes 600 s ends the whole run (pyproject.toml).
INSTALL_SECONDS: float = 500


class MissingTool(Exception):
    """A toolchain is not on this machine.  Skip the programs that need it, with a message."""


def need(*programs: str) -> None:
    """Raise MissingTool unless all `programs` are on the path."""
    for program in programs:
        if shutil.which(program) is None:
            raise MissingTool(f"{program} is not installed")


def kafka_jars(version: str = places.KAFKA_VERSION) -> Path:
    """The folder with the jars of Apache Kafka, its tools and what they need.

    version: a release of 3.x is fetched without tools, to be run as a broker.
    """
    if version == places.KAFKA_VERSION:
        return _jars("kafka-jars", HERE / "pom.xml")
    return _jars(f"kafka-jars-{version}", HERE / "migration" / "pom.xml", f"-Dkafka={version}")


def mirror_maker_jars() -> Path:
    """The folder with the jars of MirrorMaker 2 and what they need."""
    return _jars("mirror-maker-jars", HERE / "migration" / "mirror-maker.xml")


def dynamodb_local_jars() -> Path:
    """The folder with the jars of DynamoDB Local, and its native libraries."""
    return _jars("dynamodb-local-jars", HERE / "clouds" / "pom.xml")


def counting_app() -> str:
    """The class path of java/CountingApp.java, compiled: Kafka Streams, and a log binding."""
    need("javac")
    source = HERE / "java" / "CountingApp.java"
    streams, kafka = _jars("streams-jars", HERE / "exactly_once" / "pom.xml"), kafka_jars()

    def build(folder: Path) -> None:
        _run(["javac", "-cp", f"{streams}/*", "-d", folder, source], cwd=WORK)

    folder = _once("counting-app", source.read_text(), build)
    return f"{folder}:{streams}/*:{kafka}/*"


def franz_go_tests() -> Path:
    """The folder of pkg/kgo with its compiled tests, `kgo.test`."""
    need("go")

    def build(folder: Path) -> None:
        shutil.copytree(_module("github.com/twmb/franz-go", places.FRANZ_GO_VERSION), folder)
        _make_writable(folder)
        _run(["go", "test", "-c", "-o", "pkg/kgo/kgo.test", "./pkg/kgo"], cwd=folder)

    return _once("franz-go", places.FRANZ_GO_VERSION, build) / "pkg" / "kgo"


def kafka_go_tests() -> Path:
    """The folder of kafka-go's source, its dependencies fetched: `go test -c` works there."""
    need("go")

    def prepare(folder: Path) -> None:
        shutil.copytree(_module("github.com/segmentio/kafka-go", places.KAFKA_GO_VERSION), folder)
        _make_writable(folder)
        # Newer releases of Go refuse the go.mod without this change.
        _run(["go", "mod", "tidy"], cwd=folder)

    return _once("kafka-go", places.KAFKA_GO_VERSION, prepare)


def librdkafka_tests() -> Path:
    """The folder of librdkafka's `test-runner`; its libraries are in ../src and ../src-cpp."""
    need("npm", "cc", "c++", "make", "tar", "javac")
    jars = kafka_jars()

    def build(folder: Path) -> None:
        _need_headers()
        folder.mkdir()
        _run(["npm", "pack", "--silent", places.LIBRDKAFKA_PACKAGE], cwd=folder)
        (package,) = folder.glob("*.tgz")
        _run(["tar", "xzf", package, "--strip-components=3", "package/deps/librdkafka"], cwd=folder)
        _run(["./configure"], cwd=folder)
        java, jobs = folder / "tests" / "java", f"-j{os.cpu_count()}"
        _run(["make", jobs, "libs"], cwd=folder)
        _run(["make", jobs, "-C", "tests", "build"], cwd=folder)
        _run(["javac", "-cp", f"{jars}/*", "-d", ".", *java.glob("*.java")], cwd=java)

    return _once("librdkafka", places.LIBRDKAFKA_PACKAGE, build) / "tests"


def kafka_python_suite() -> Path:
    """The unpacked source distribution, with `venv` beside its files."""
    version = places.KAFKA_PYTHON_VERSION
    stub = HERE / "clients" / "kafka-python" / "service_stub.py"

    def unpack(folder: Path) -> None:
        folder.mkdir(parents=True)
        python = folder / "venv" / "bin" / "python"
        _run([sys.executable, "-m", "venv", folder / "venv"], cwd=folder)
        pip: list[str | Path] = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        sdist = ["--no-deps", "--no-binary", ":all:", f"kafka-python=={version}"]
        _run([*pip, "download", *sdist], cwd=folder)
        _run(["tar", "xzf", f"kafka_python-{version}.tar.gz", "--strip-components=1"], cwd=folder)
        extras = ["pytest", "pytest-mock", "pytest-timeout", "docker"]
        codecs = ["crc32c", "lz4", "python-snappy", "zstandard", "xxhash"]
        _run([*pip, "install", "-e", ".", *extras, *codecs], cwd=folder)
        (folder / "kroot").mkdir()
        # Without this file, `import test` finds the package of CPython's own tests.
        (folder / "test" / "__init__.py").touch()
        shutil.copy(stub, folder / "test/service.py")

    return _once("kafka-python", version + stub.read_text(), unpack)


def old_kafka_python(version: str) -> Path:
    """The Python of an environment with a kafka-python of years ago."""

    def install(folder: Path) -> None:
        folder.mkdir(parents=True)
        python = folder / "bin" / "python"
        _run([sys.executable, "-m", "venv", folder], cwd=WORK)
        codecs = ["crc32c", "lz4", "python-snappy", "xxhash", "zstandard"]
        pip: list[str | Path] = [python, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "install", f"kafka-python=={version}", "six", *codecs], cwd=folder)

    return _once(f"kafka-python-{version}", version, install) / "bin" / "python"


def python_program(name: str, *packages: str) -> Path:
    """The folder of an environment's programs, in which packages are installed."""

    def install(folder: Path) -> None:
        folder.mkdir(parents=True)
        _run([sys.executable, "-m", "venv", folder], cwd=WORK)
        pip: list[str | Path] = [folder / "bin" / "python", "-m", "pip", "--quiet"]
        _run([*pip, "--disable-pip-version-check", "install", *packages], cwd=folder)

    return _once(name, " ".join(packages), install) / "bin"


def node_client(name: str) -> Path:
    """A copy of clients/NAME with its npm dependencies installed."""
    need("node", "npm")
    source = HERE / "clients" / name

    def install(folder: Path) -> None:
        shutil.copytree(source, folder)
        _run(["npm", "install", "--no-audit", "--no-fund", "--silent"], cwd=folder)

    return _once(name, _text_of(source), install)


def go_clients() -> Path:
    """The folder with the compiled programs of clients/go/cmd."""
    need("go")
    source = HERE / "clients" / "go"

    def build(folder: Path) -> None:
        folder.mkdir()
        _run(["go", "build", "-o", f"{folder}/", "./cmd/..."], cwd=source)

    return _once("go-clients", _text_of(source), build)


def java_authorizations() -> Path:
    """The folder with the compiled program of java/security."""
    need("javac")
    jars = kafka_jars()
    source = HERE / "java" / "security"

    def build(folder: Path) -> None:
        _run(["javac", "-cp", f"{jars}/*", "-d", folder, *source.glob("*.java")], cwd=WORK)

    return _once("java-authorizations", _text_of(source), build)


def java_transactions() -> Path:
    """The folder with the compiled program of java/transactions."""
    need("javac")
    jars = kafka_jars()
    source = HERE / "java" / "transactions"

    def build(folder: Path) -> None:
        _run(["javac", "-cp", f"{jars}/*", "-d", folder, *source.glob("*.java")], cwd=WORK)

    return _once("java-transactions", _text_of(source), build)


def kcat() -> Path:
    """The kcat of Debian."""
    found = shutil.which("kcat")
    if found is None and shutil.which("apt-get") and os.geteuid() == 0:
        _run(["apt-get", "install", "-y", "kcat"], cwd=WORK)
        found = shutil.which("kcat")
    if found is None:
        raise MissingTool("kcat is not installed (Debian package kcat)")
    return Path(found)


def prometheus() -> Path:
    """The folder with the programs prometheus and promtool, Debian's if none are on the path."""
    found = shutil.which("promtool")
    if found is not None and shutil.which("prometheus") is not None:
        return Path(found).parent

    def unpack(folder: Path) -> None:
        # The package is only unpacked, since its installation would start a service.
        need("apt-get", "dpkg")
        folder.mkdir()
        _run(["apt-get", "download", "prometheus"], cwd=folder)
        [package] = folder.glob("*.deb")
        _run(["dpkg", "-x", package, folder], cwd=folder)
        package.unlink()

    return _once("prometheus", "Debian's", unpack) / "usr" / "bin"


def _jars(name: str, pom: Path, *options: str) -> Path:
    need("java")

    def copy(folder: Path) -> None:
        need("mvn")
        copy_jars = "dependency:copy-dependencies"
        to = [f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
        _run(["mvn", "-B", "-q", "-f", pom, copy_jars, *to, *options], cwd=WORK)

    return _once(name, pom.read_text(), copy)


def _need_headers() -> None:
    """Install the C headers without which librdkafka leaves out some of its tests.

    Raises:
      MissingTool: a header is missing, and this process cannot install it (root, apt-get).
    """
    packages = {
        "openssl/ssl.h": "libssl-dev",
        "zlib.h": "zlib1g-dev",
        "zstd.h": "libzstd-dev",
        "rapidjson/document.h": "rapidjson-dev",
    }
    missing = [packages[header] for header in packages if not _has_header(header)]
    if missing and shutil.which("apt-get") and os.geteuid() == 0:
        _run(["apt-get", "install", "-y", *missing], cwd=WORK)
        missing = []
    if missing:
        raise MissingTool(f"headers are not installed (Debian packages {' '.join(missing)})")


def _has_header(header: str) -> bool:
    probe = ["c++", "-x", "c++", "-fsyntax-only", "-include", header, "/dev/null"]
    return subprocess.run(probe, capture_output=True, check=False, timeout=60).returncode == 0


def _module(path: str, version: str) -> Path:
    command = ["go", "mod", "download", "-json", f"{path}@{version}"]
    done = subprocess.run(
        command, check=True, capture_output=True, cwd=WORK, timeout=INSTALL_SECONDS
    )
    return Path(json.loads(done.stdout)["Dir"])


def _make_writable(folder: Path) -> None:
    for path in [folder, *folder.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)


def _text_of(folder: Path) -> str:
    return "".join(path.read_text() for path in sorted(folder.rglob("*")) if path.is_file())


def _once(name: str, stamp: str, make: Callable[[Path], None]) -> Path:
    """Run `make` for .work/NAME unless it was made from the same stamp.  Of several processes, one
    makes it, and the others wait.
    """
    WORK.mkdir(exist_ok=True)
    folder, stamp_file = WORK / name, WORK / f"{name}.stamp"
    with (WORK / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if stamp_file.exists() and stamp_file.read_text() == stamp and folder.exists():
            return folder
        print(f"installing {name} (once) ...", file=sys.stderr, flush=True)
        stamp_file.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        make(folder)
        stamp_file.write_text(stamp)
    return folder


def _run(command: Command, *, cwd: Path) -> None:
    log = WORK / "install.log"
    with log.open("ab") as output:
        try:
            done = subprocess.run(
                [str(word) for word in command],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=INSTALL_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            text = f"{command[0]} {command[1]} took longer than {INSTALL_SECONDS} s"
            raise MissingTool(text) from late
    if done.returncode:
        last = log.read_text(errors="replace")[-2000:]
        raise MissingTool(f"{command[0]} {command[1]} failed ({done.returncode}):\n{last}")
