"""The Helm chart: Kubernetes takes its manifests, and it refuses wrong values with a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

pytest.importorskip("helm_python", reason="the extra `deploy` is not installed")

from tests.worlds.chart_world import (
    HELM,
    SHAPES,
    example,
    manifests,
    of_kind,
    pods,
    rendered,
    rendered_examples,
)

VERSIONS = [f"1.{minor}" for minor in range(31, 38)]
# A resource of the Prometheus operator, for which Kubernetes has no schema.
FOREIGN = {"ServiceMonitor"}
GOOD = {
    "zones": [{"id": 1, "name": "a", "replicas": 2}],
    "log": {"url": "postgres://tidegate@db.example/tidegate"},
    "store": {"url": "s3://bucket/prefix"},
    "secrets": {"name": "tidegate"},
    "allowPlaintext": True,
}
SASL = {"name": "S", "port": 9292, "protocol": "SASL_SSL", "tls": {"secret": "t"}}
PLAIN = {"name": "P", "port": 9192, "protocol": "PLAINTEXT"}


def test_the_rendered_example_is_what_the_chart_makes() -> None:
    [shown] = (HELM / "rendered").iterdir()
    assert shown.read_text() == rendered_examples()[shown.stem], "run deploy/helm/render.py"


def test_there_are_eight_shapes() -> None:
    assert len(SHAPES) == 8
    assert sorted(rendered_examples()) == SHAPES


@pytest.mark.parametrize("version", VERSIONS)
def test_kubernetes_takes_all_of_it(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    validating = pytest.importorskip("kubernetes_validate")
    # The library reads megabytes of JSON for each object, so cache them.
    once = cache(validating.utils.schema_contents)
    monkeypatch.setattr(validating.utils, "schema_contents", once)
    for shape in SHAPES:
        for each in manifests(shape):
            if each["kind"] not in FOREIGN:
                assert validating.validate(each, version, strict=True) == version


def test_the_schemas_would_refuse_a_misspelt_key() -> None:
    validating = pytest.importorskip("kubernetes_validate")
    (budget,) = of_kind("postgres-s3", "PodDisruptionBudget")
    budget["spec"]["maxUnavailible"] = budget["spec"].pop("maxUnavailable")
    with pytest.raises(validating.ValidationError):
        validating.validate(budget, VERSIONS[0], strict=True)


def test_traffic_stays_in_the_zone_by_the_name_that_each_version_knows() -> None:
    old, new = rendered({**GOOD, "kubeVersion": "1.34"}, {**GOOD, "kubeVersion": "1.35"})
    assert old["files"]["services.yaml"].count("trafficDistribution: PreferClose") == 2
    assert new["files"]["services.yaml"].count("trafficDistribution: PreferSameZone") == 2


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"zones": []}, "zones is empty: name the zones with gateways"),
    ({"zones": [{"id": 12, "name": "a", "replicas": 1}]}, "maximum: got 12, want 9"),
    ({"zones": [{"id": 1, "name": "a", "replicas": 101}]}, "maximum: got 101, want 100"),
    (
        {"zones": [{"id": 1, "name": n, "replicas": 1} for n in "ab"]},
        "zones a and b have the same id 1",
    ),
    (
        {"zones": [{"id": i, "name": "a", "replicas": 1} for i in (1, 2)]},
        "zone a is there twice",
    ),
    ({"playground": True}, "playground runs one gateway in one pod: leave zones empty"),
    ({"proceses": 2}, "additional properties 'proceses' not allowed"),
    ({"processes": 0}, "minimum: got 0, want 1"),
    ({"log": {"url": ""}}, "log.url is empty: say where the metadata log is"),
    ({"log": {"url": "sqlite:/x"}}, "is no log that several pods can share"),
    ({"log": {"url": "postgres://u:p@h/d"}}, "log.url has a password"),
    ({"log": {"url": "postgres://u@h/d?sslpassword=p"}}, "log.url has a password"),
    ({"log": {"url": "s3://b/p", "secretKey": "k"}}, "both name the metadata log"),
    ({"store": {"url": "file:/x"}}, "store.url names no store that several pods can share"),
    ({"store": {"url": "s3://key@bucket/p"}}, "without keys"),
    ({"secrets": {"name": ""}}, "make a Secret with the keys instance.key and peer.token"),
    ({"secrets": {"name": "s", "peerToken": ""}}, "leave neither empty"),
    ({"allowPlaintext": False}, "gateways would send peer.token and records to each other"),
    (
        {"allowPlaintext": False, "peers": {"tls": {"secret": "t"}}},
        "listener INTERNAL speaks PLAINTEXT, so any client that reaches it needs no name",
    ),
    (
        {
            "allowPlaintext": False,
            "peers": {"tls": {"secret": "t"}},
            "secrets": {"name": "s", "adminToken": "admin.token"},
        },
        "admin.token would be sent without TLS",
    ),
    ({"listeners": []}, "minItems: got 0, want 1"),
    ({"listeners": [{**PLAIN, "protocol": "TLS"}]}, "value must be one of 'PLAINTEXT', 'SSL'"),
    ({"listeners": [{**PLAIN, "name": "plain"}]}, "does not match pattern"),
    ({"listeners": [PLAIN, PLAIN]}, "two listeners are called P"),
    ({"listeners": [{**PLAIN, "name": "PEER"}]}, "a listener cannot be called PEER"),
    ({"listeners": [{**PLAIN, "protocol": "SSL"}]}, "name the Secret with its certificates"),
    ({"listeners": [SASL]}, "say how clients log in"),
    ({"listeners": [{**PLAIN, "tls": {"secret": "t"}}]}, "has tls, but speaks PLAINTEXT"),
    ({"listeners": [{**PLAIN, "sasl": {"mechanisms": ["PLAIN"]}}]}, "has sasl, but speaks"),
    (
        {"listeners": [{**SASL, "sasl": {"mechanisms": ["GSSAPI"]}}]},
        "value must be one of 'PLAIN', 'SCRAM-SHA-256'",
    ),
    ({"listeners": [{**PLAIN, "port": 9644}]}, "admin.port is 9644 and the port of listener P"),
    (
        {"processes": 4, "listeners": [PLAIN, {**PLAIN, "name": "Q", "port": 9195}]},
        "4 gateways of a pod need as many ports each",
    ),
    (
        {"processes": 2, "listeners": [{**PLAIN, "external": {"type": "NodePort"}}]},
        "NodePort gives each pod one port",
    ),
    (
        {"listeners": [{**PLAIN, "external": {"type": "LoadBalancer", "host": "$(POD_NAME).x"}}]},
        "say at which port clients reach the load balancers",
    ),
    (
        {"listeners": [{**PLAIN, "external": {"type": "LoadBalancer", "host": "x", "port": 1}}]},
        "external.host must differ between pods",
    ),
    ({"settings": {"node.id": 7}}, "settings: the chart sets node.id itself"),
    ({"settings": {"a": "b\nnode.id=7"}}, "has several lines"),
    ({"settings": {"Node": 7}}, "does not match pattern"),
    ({"env": [{"name": "TIDEGATE_NODE_ID", "value": "1"}]}, "write it in settings"),
    ({"pipeline": {"kind": "DaemonSet"}}, "value must be one of 'Deployment', 'CronJob', 'None'"),
    ({"kubeVersion": "1.30"}, "does not match pattern"),
    ({"fullnameOverride": "x" * 41}, "maxLength: got 41, want 40"),
]


def test_wrong_values_are_refused_with_a_sentence() -> None:
    good, *refused = rendered(GOOD, *({**GOOD, **each} for each, _ in WRONG))
    assert "files" in good
    for (values, sentence), said in zip(WRONG, refused, strict=True):
        assert sentence in said.get("error", "it was taken"), values


@pytest.mark.parametrize("shape", SHAPES)
def test_every_pod_may_little(shape: str) -> None:
    for spec in pod_specs(shape):
        security = spec["securityContext"]
        assert (security["runAsNonRoot"], security["runAsUser"]) == (True, 10001)
        assert spec["enableServiceLinks"] is False
        assert spec["automountServiceAccountToken"] is False
        (container,) = spec["containers"]
        inner = container["securityContext"]
        assert inner["readOnlyRootFilesystem"] is True
        assert inner["allowPrivilegeEscalation"] is False
        assert inner["capabilities"] == {"drop": ["ALL"]}
        assert {each["mountPath"] for each in container["volumeMounts"]} >= {"/tmp"}


def pod_specs(shape: str) -> Iterator[dict[str, Any]]:
    for each in manifests(shape):
        if each["kind"] in ("StatefulSet", "Deployment"):
            yield each["spec"]["template"]["spec"]
        if each["kind"] == "CronJob":
            yield each["spec"]["jobTemplate"]["spec"]["template"]["spec"]


@pytest.mark.parametrize("shape", SHAPES)
def test_gateways_are_checked_by_life_and_given_clients_by_readiness(shape: str) -> None:
    for pod in pods(shape):
        (container,) = pod.spec["containers"]
        paths = {
            name: container[name]["httpGet"]["path"]
            for name in ("startupProbe", "livenessProbe", "readinessProbe")
        }
        assert paths == {
            "startupProbe": "/livez",
            "livenessProbe": "/livez",
            "readinessProbe": "/readyz",
        }
        startup = container["startupProbe"]
        # A starting pod may wait this long for its log.
        assert startup["periodSeconds"] * startup["failureThreshold"] > 120
        mounts = {each["mountPath"] for each in container["volumeMounts"]}
        assert "/var/lib/tidegate" in mounts
        assert ("/var/cache/tidegate" in mounts) == ("disk.cache.dir" in pod.properties)
        processes = example(shape).get("processes", 1)
        assert pod.spec["terminationGracePeriodSeconds"] == processes * 30 + 15


@pytest.mark.parametrize("shape", [each for each in SHAPES if each != "playground"])
def test_one_budget_for_the_pods_of_all_zones(shape: str) -> None:
    (budget,) = of_kind(shape, "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    for each in of_kind(shape, "StatefulSet"):
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert budget["spec"]["selector"]["matchLabels"].items() <= labels.items()
        assert each["spec"]["podManagementPolicy"] == "Parallel"
    for each in of_kind(shape, "Deployment"):
        labels = each["spec"]["template"]["metadata"]["labels"]
        assert not budget["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("shape", SHAPES)
def test_a_gateway_keeps_its_name_while_it_drains(shape: str) -> None:
    services = of_kind(shape, "Service")
    headless = [each for each in services if each["spec"].get("clusterIP") == "None"]
    assert [each["spec"]["publishNotReadyAddresses"] for each in headless] == [True]
    (name,) = (each["metadata"]["name"] for each in headless)
    assert {each["spec"]["serviceName"] for each in of_kind(shape, "StatefulSet")} == {name}
    bootstrap = [each for each in services if "trafficDistribution" in each["spec"]]
    assert len(bootstrap) == 1 + len(of_kind(shape, "StatefulSet"))
    assert not any(each["spec"].get("publishNotReadyAddresses") for each in bootstrap)


def test_a_service_of_a_zone_leads_to_its_gateways() -> None:
    sets = {
        each["metadata"]["name"]: each["spec"]["template"]["metadata"]["labels"]
        for each in of_kind("postgres-s3", "StatefulSet")
    }
    services = {
        each["metadata"]["name"]: each["spec"] for each in of_kind("postgres-s3", "Service")
    }
    for name, labels in sets.items():
        wanted = services[name]["selector"].items()
        assert [each for each in sets if wanted <= sets[each].items()] == [name]
        assert labels.items() >= services["tidegate"]["selector"].items()


def test_zones_of_one_gateway_are_not_replaced_all_at_once() -> None:
    def strategies(shape: str) -> set[str]:
        return {each["spec"]["updateStrategy"]["type"] for each in of_kind(shape, "StatefulSet")}

    assert strategies("dynamodb-s3") == {"OnDelete"}
    assert strategies("postgres-s3") == {"RollingUpdate"}
    assert strategies("large-machines") == {"RollingUpdate"}  # as its values say


def test_ports_of_nodes_are_those_that_pods_advertise() -> None:
    services = [each for each in of_kind("google", "Service") if "type" in each["spec"]]
    told = {
        each["spec"]["selector"]["statefulset.kubernetes.io/pod-name"]: each["spec"]["ports"][0]
        for each in services
    }
    for pod in pods("google"):
        address = f"EXTERNAL://10.0.0.7:{told[pod.name]['nodePort']}"
        assert pod.environ["TIDEGATE_ADVERTISED_LISTENERS"].endswith(address)
    assert len(told) == len(pods("google"))
