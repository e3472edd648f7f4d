"""The Helm chart's objects for its examples and for any values."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

HELM = Path(__file__).parents[3] / "deploy" / "helm"
EXAMPLES = sorted((HELM / "tidegate" / "examples").glob("*.yaml"))
SHAPES = [each.stem for each in EXAMPLES]
REFERENCE = re.compile(r"\$\(([A-Z_]+)\)")
HOST_IP = "10.0.0.7"


@cache
def rendered_examples() -> dict[str, str]:
    """Return the text of each example's objects, by the example's name."""
    with TemporaryDirectory() as folder:
        subprocess.run([sys.executable, HELM / "render.py", folder], check=True)
        return {each.stem: each.read_text() for each in Path(folder).iterdir()}


def manifests(shape: str) -> list[dict[str, Any]]:
    """Return all objects of an example."""
    return [each for each in yaml.safe_load_all(rendered_examples()[shape]) if each]


def of_kind(shape: str, kind: str) -> list[dict[str, Any]]:
    return [each for each in manifests(shape) if each["kind"] == kind]


def example(shape: str) -> dict[str, Any]:
    """Return the values of an example."""
    found: dict[str, Any] = yaml.safe_load(
        (HELM / "tidegate" / "examples" / f"{shape}.yaml").read_text()
    )
    return found


def rendered(*values: dict[str, Any]) -> list[dict[str, Any]]:
    """Return Helm's objects for each of some values, from another process, since Helm is in Go."""
    done = subprocess.run(
        [sys.executable, HELM / "render.py", "--json"],
        input=json.dumps(values),
        capture_output=True,
        text=True,
        check=True,
    )
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


@dataclass(frozen=True)
class Pod:
    """A gateway's pod as kubelet starts it.

    environ: the variables, with references replaced.  properties: the server.properties of the
        ConfigMap.
    """

    name: str
    environ: dict[str, str]
    arguments: list[str]
    properties: str
    spec: dict[str, Any]


def pods(shape: str) -> list[Pod]:
    """Return all gateway pods of an example."""
    (config,) = of_kind(shape, "ConfigMap")
    return [
        pod_of(each, ordinal, config["data"]["server.properties"])
        for each in of_kind(shape, "StatefulSet")
        for ordinal in range(
            each["spec"]["ordinals"]["start"],
            each["spec"]["ordinals"]["start"] + each["spec"]["replicas"],
        )
    ]


def pod_of(stateful_set: dict[str, Any], ordinal: int, properties: str) -> Pod:
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    spec = stateful_set["spec"]["template"]["spec"]
    fields = {
        "metadata.name": name,
        "metadata.labels['apps.kubernetes.io/pod-index']": str(ordinal),
        "status.hostIP": HOST_IP,
    }
    (container,) = spec["containers"]
    environ: dict[str, str] = {}
    for each in container["env"]:
        source = each.get("valueFrom", {})
        if "secretKeyRef" in source:
            continue
        text = fields[source["fieldRef"]["fieldPath"]] if source else each["value"]
        environ[each["name"]] = expanded(text, environ)
    return Pod(name, environ, [*container["command"], *container["args"]], properties, spec)


def expanded(text: str, before: dict[str, str]) -> str:
    """Replace $(NAME) by earlier variables, as kubelet does; leave unknown names as they are."""
    return REFERENCE.sub(lambda found: before.get(found[1], found[0]), text)
