"""Writes a software bill of materials of an installed Tidegate: CycloneDX 1.6, JSON.

    python deploy/image/sbom.py            # the packages of this Python, with Tidegate's wheel
    python deploy/image/sbom.py --root /   # and those that Debian's dpkg installed below a folder

It reads the metadata that pip and dpkg leave, and needs no package.  It gives the same bytes for
the same packages, so the bill has no time and no serial number.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any
from urllib.parse import quote

MAIN = "tidegate"
STATUS = Path("var/lib/dpkg/status")
SYSTEM = Path("etc/os-release")


def main(arguments: list[str]) -> int:
    """Print the bill; exit code 1 without Tidegate."""
    parser = argparse.ArgumentParser(description="Write a software bill of materials.")
    parser.add_argument("--root", type=Path, help="a file system whose Debian packages to list")
    options = parser.parse_args(arguments)
    packages = {normal(each.name): each for each in distributions()}
    if MAIN not in packages:
        print(f"{sys.executable} has no {MAIN}", file=sys.stderr)
        return 1
    debian = list(debian_packages(options.root)) if options.root is not None else []
    print(json.dumps(bill(packages, debian), indent=1))
    return 0


def bill(packages: dict[str, Distribution], debian: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the document: Tidegate, its components and their dependencies."""
    others = sorted(name for name in packages if name != MAIN)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": python_component(packages[MAIN], "application")},
        "components": [python_component(packages[name], "library") for name in others] + debian,
        "dependencies": [
            {"ref": reference(packages[name]), "dependsOn": needs(packages[name], packages)}
            for name in (MAIN, *others)
        ],
    }


def normal(name: str) -> str:
    """Return a name as package indexes compare them (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def reference(package: Distribution) -> str:
    """Return the package's URL (purl), which is its name in the bill."""
    return f"pkg:pypi/{normal(package.name)}@{quote(package.version)}"


def needs(package: Distribution, packages: dict[str, Distribution]) -> list[str]:
    """Return the installed packages that a package requires, with those of its extras."""
    names = {normal(re.split(r"[^\w.-]", each)[0]) for each in package.requires or []}
    names.discard(normal(package.name))  # an extra that includes another extra
    return sorted(reference(packages[each]) for each in names if each in packages)


def python_component(package: Distribution, kind: str) -> dict[str, Any]:
    """Return a Python package's entry."""
    found: dict[str, Any] = {
        "type": kind,
        "bom-ref": reference(package),
        "name": package.name,
        "version": package.version,
        "purl": reference(package),
    }
    # PEP 639: an expression of SPDX.  Older metadata has texts of any form, which are left out.
    if "License-Expression" in package.metadata:
        found["licenses"] = [{"expression": package.metadata["License-Expression"]}]
    return found


def debian_packages(root: Path) -> Iterator[dict[str, Any]]:
    """Yield the entries of installed Debian packages; none without dpkg."""
    if not (root / STATUS).exists():
        return
    release = (root / SYSTEM).read_text(encoding="utf-8")
    system = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', release, re.MULTILINE))
    distribution = quote(system["ID"])
    for paragraph in (root / STATUS).read_text(encoding="utf-8").split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.*)$", paragraph, re.MULTILINE))
        if not fields.get("Status", "").endswith(" installed"):
            continue
        name, version = fields["Package"], fields["Version"]
        place = f"arch={fields['Architecture']}&distro={distribution}-{system['VERSION_ID']}"
        purl = f"pkg:deb/{distribution}/{quote(name)}@{quote(version)}?{place}"
        yield {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
