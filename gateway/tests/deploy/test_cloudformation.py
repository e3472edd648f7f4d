"""The CloudFormation template: linted, made on moto, without rights that the code does not need.

moto makes the resources, but unlike AWS it neither checks rights nor starts machines.
"""

from __future__ import annotations

import ast
import base64
import json
import re
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("cfnlint", reason="the extra `deploy` is not installed")
pytest.importorskip("moto", reason="the extra `deploy` is not installed")

import boto3
from cfnlint.decode import cfn_yaml
from moto import mock_aws

from tidegate_gateway.cli.processes.plan import check_processes
from tidegate_gateway.settings.settings_sources import gather

ROOT = Path(__file__).parents[3]
TEMPLATE = ROOT / "deploy" / "cloudformation" / "tidegate.yaml"
STORE = ROOT / "storage" / "tidegate_storage" / "stores" / "remote_store.py"
DYNAMODB = ROOT / "coordination" / "tidegate_coordination" / "logs" / "dynamodb"
REGION = "eu-central-1"
NOT_MADE_BY_MOTO = {"AWS::S3::BucketPolicy", "AWS::EC2::SecurityGroupEgress"}

# The right that each call of obstore needs.  A PUT has one part, so it needs no right to list or
# abort parts.
RIGHTS_OF_STORE = {
    "get": "s3:GetObject",
    "get_range": "s3:GetObject",
    "head": "s3:GetObject",
    "put": "s3:PutObject",
    "delete": "s3:DeleteObject",
    "list": "s3:ListBucket",
}
# The right that each operation of DynamoDB needs.  A transaction needs the rights of its parts.  If
# the table exists, the code neither creates nor describes it.
RIGHTS_OF_LOG = {
    "batch_write_item": {"dynamodb:BatchWriteItem"},
    "create_table": set[str](),
    "describe_table": set[str](),
    "get_item": {"dynamodb:GetItem"},
    "put_item": {"dynamodb:PutItem"},
    "query": {"dynamodb:Query"},
    "transact_get_items": {"dynamodb:GetItem"},
    "transact_write_items": {"dynamodb:PutItem", "dynamodb:UpdateItem"},
    "update_item": {"dynamodb:UpdateItem"},
}
OPERATION = re.compile(r'"((?:[a-z]+_)+(?:items?|table)|query|scan)"')


def template() -> dict[str, Any]:
    return json.loads(json.dumps(cfn_yaml.load(str(TEMPLATE))))  # type: ignore[no-any-return]


def resources(kind: str) -> dict[str, dict[str, Any]]:
    found = template()["Resources"]
    return {name: each for name, each in found.items() if each["Type"] == f"AWS::{kind}"}


def statements() -> dict[str, dict[str, Any]]:
    """Return the statements of the gateways' policy by name, those with a condition included."""
    (policy,) = resources("IAM::Policy").values()
    found = policy["Properties"]["PolicyDocument"]["Statement"]
    given = [each["Fn::If"][1] if "Fn::If" in each else each for each in found]
    return {each["Sid"]: each for each in given}


def actions(*given: dict[str, Any]) -> set[str]:
    found = (each["Action"] for each in given)
    return {one for each in found for one in ([each] if isinstance(each, str) else each)}


def test_the_linter_finds_nothing() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("cfn-lint"), TEMPLATE],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr


# -- rights ---------------------------------------------------------------------------------------


def calls_of_obstore() -> set[str]:
    tree = ast.parse(STORE.read_text())
    return {
        node.func.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "obstore"
    }


def test_the_rights_on_the_bucket_are_those_that_the_store_uses() -> None:
    assert calls_of_obstore() == RIGHTS_OF_STORE.keys()
    assert "use_multipart=False" in STORE.read_text()
    given = statements()
    used = set(RIGHTS_OF_STORE.values())
    assert actions(given["RecordsOfThisCluster"], given["NamesOfThisCluster"]) == used
    records = "${Records.Arn}/${ClusterName}/*"
    assert given["RecordsOfThisCluster"]["Resource"] == {"Fn::Sub": records}
    assert actions(given["NamesOfThisCluster"]) == {"s3:ListBucket"}
    prefixes = given["NamesOfThisCluster"]["Condition"]["StringLikeIfExists"]["s3:prefix"]
    assert prefixes == [
        {"Fn::Sub": "${ClusterName}/*"},
        {"Fn::Sub": "boot/${ClusterName}/*"},
    ]
    assert actions(given["SecretsAtTheStart"]) == {"s3:GetObject"}
    assert given["SecretsAtTheStart"]["Resource"] == {
        "Fn::Sub": "${Records.Arn}/boot/${ClusterName}/*"
    }


def test_only_one_module_asks_the_object_store() -> None:
    """The test above reads only this module, so another module's rights would be missing there."""
    found = ROOT.glob("*/tidegate_*/**/*.py")
    importers = [
        each for each in found if re.search(r"^import obstore$", each.read_text(), re.MULTILINE)
    ]
    assert importers == [STORE]


def test_the_rights_on_the_table_are_those_that_the_log_uses() -> None:
    given = statements()["LogOfThisCluster"]
    assert actions(given) == set().union(*RIGHTS_OF_LOG.values())
    keys = given["Condition"]["ForAllValues:StringEquals"]["dynamodb:LeadingKeys"]
    assert keys == [{"Ref": "ClusterName"}, {"Fn::Sub": "${ClusterName}/pieces"}]


def test_the_log_uses_no_operation_without_a_right() -> None:
    used = {each for path in DYNAMODB.glob("*.py") for each in OPERATION.findall(path.read_text())}
    assert used == RIGHTS_OF_LOG.keys()


def test_no_role_may_more_than_the_policies_say() -> None:
    for role in resources("IAM::Role").values():
        assert role["Properties"].keys() == {"AssumeRolePolicyDocument"}
    for each in statements().values():
        assert each["Effect"] == "Allow"
        assert not any("*" in one for one in actions(each))
        assert each["Resource"] != "*"


# -- what is kept, and who connects ----------------------------------------------------------------


def test_nothing_deletes_records() -> None:
    (bucket,) = resources("S3::Bucket").values()
    assert (bucket["DeletionPolicy"], bucket["UpdateReplacePolicy"]) == ("Retain", "Retain")
    for rule in bucket["Properties"]["LifecycleConfiguration"]["Rules"]:
        assert rule.keys() == {"Id", "Status", "AbortIncompleteMultipartUpload"}
    for table in resources("DynamoDB::Table").values():
        assert (table["DeletionPolicy"], table["UpdateReplacePolicy"]) == ("Retain", "Retain")
        assert table["Properties"]["DeletionProtectionEnabled"] is True
        assert "TimeToLiveSpecification" not in table["Properties"]


def test_only_named_networks_connect() -> None:
    open_to = {"Ref": "ClientsCidr"}, {"Ref": "AdminCidr"}
    for group in resources("EC2::SecurityGroup").values():
        for each in group["Properties"]["SecurityGroupIngress"]:
            assert each["CidrIp"] in open_to
            assert (each["FromPort"] == 9644) == (each["CidrIp"] == {"Ref": "AdminCidr"})
    for each in resources("EC2::SecurityGroupIngress").values():
        assert "SourceSecurityGroupId" in each["Properties"]
    for each in resources("EC2::VPCEndpoint").values():
        # A gateway endpoint costs nothing.
        assert each["Properties"]["VpcEndpointType"] == "Gateway"


def test_zones_are_updated_one_after_the_other() -> None:
    groups = resources("AutoScaling::AutoScalingGroup")
    assert groups["GatewayB"]["DependsOn"] == "GatewayA"
    assert groups["GatewayC"]["DependsOn"] == "GatewayB"
    for each in groups.values():
        assert each["Properties"]["MaxSize"] == "1"  # two instances would have the same node.id
        rolling = each["UpdatePolicy"]["AutoScalingRollingUpdate"]
        assert rolling["MinInstancesInService"] == 0


def test_parameters_refuse_what_is_no_network_and_no_name() -> None:
    parameters = template()["Parameters"]
    for name, good, wrong in (
        ("ClientsCidr", "10.0.0.0/16", "10.0.0.0"),
        ("AdminCidr", "10.0.9.0/24", "everyone"),
        ("ClusterName", "prod", "Prod/x"),
        ("InstanceType", "m7i.xlarge", "large"),
    ):
        pattern = parameters[name]["AllowedPattern"]
        assert re.fullmatch(pattern, good)
        assert not re.fullmatch(pattern, wrong)
        assert parameters[name]["ConstraintDescription"]


# -- the first start ------------------------------------------------------------------------------


def first_start() -> str:
    """Return the script of the first start, with 1 for each value of the stack."""
    data = resources("EC2::LaunchTemplate")["GatewayTemplate"]["Properties"]["LaunchTemplateData"]
    return re.sub(r"\$\{[\w:.]+\}", "1", data["UserData"]["Fn::Base64"]["Fn::Sub"][0])


def writing(script: str, folder: Path) -> str:
    """Return its part that writes files, for another folder, without the wait for the secrets."""
    part = script[script.index("address=") : script.index("chgrp -R")]
    part = re.sub(r"until .*?done\n", "", part, flags=re.DOTALL)
    return part.replace("-o root -g tidegate ", "").replace("/etc/tidegate", str(folder / "etc"))


def ran(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True)


def test_a_machine_answers_also_after_a_long_wait_for_the_secrets(tmp_path: Path) -> None:
    """A token of the machine is valid for some minutes, and the operator may take longer."""
    script = first_start()
    known = """
    curl() {
        case "$*" in
            *" PUT "*) cat token;;
            *"metadata-token: $(cat token)"*) echo answer;;
            *) return 22;;
        esac
    }
    echo first > token
    """
    ask = "about local-ipv4; echo second > token; about local-ipv4"
    about = script[script.index("about()") : script.index("address=")]
    done = ran(f"{known}\n{about}\n{ask}", tmp_path)
    assert (done.returncode, done.stdout) == (0, "answer\nanswer\n"), done.stderr


def test_a_gateway_gets_no_settings_without_an_answer_of_its_machine(tmp_path: Path) -> None:
    about = "about() { case $1 in tags/*) return 22;; *) echo answer;; esac; }"
    done = ran(f"set -eu\n{about}\n{writing(first_start(), tmp_path)}", tmp_path)
    assert done.returncode == 22, done.stderr
    assert not (tmp_path / "etc/server.properties").exists()


# -- on moto --------------------------------------------------------------------------------------


@pytest.fixture(params=["dynamodb", "s3"])
def stack(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield the stack's outputs, after moto has made the stack."""
    for name, text in (
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_DEFAULT_REGION", REGION),
        ("AWS_CONFIG_FILE", "/nonexistent"),
        ("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent"),
    ):
        monkeypatch.setenv(name, text)
    with mock_aws(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        yield made(request.param)
        unknown = {
            found[0] for each in said if (found := re.findall(r"AWS::\S+", str(each.message)))
        }
        assert unknown == NOT_MADE_BY_MOTO


def made(log: str) -> dict[str, str]:
    ec2 = boto3.client("ec2")
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    subnets = {
        f"Subnet{zone.upper()}": ec2.create_subnet(
            VpcId=vpc, CidrBlock=f"10.0.{number}.0/24", AvailabilityZone=f"{REGION}{zone}"
        )["Subnet"]["SubnetId"]
        for number, zone in enumerate("abc")
    }
    tables = ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [vpc]}])
    given = {
        **subnets,
        "VpcId": vpc,
        "RouteTables": tables["RouteTables"][0]["RouteTableId"],
        "ImageId": ec2.describe_images()["Images"][0]["ImageId"],
        "ClientsCidr": "10.0.0.0/16",
        "AdminCidr": "10.0.9.0/24",
        "Log": log,
    }
    body = template()
    # moto treats each load balancer as one of HTTP.
    del body["Resources"]["BootstrapListener"]
    body["Resources"]["GatewayA"]["DependsOn"].remove("BootstrapListener")
    if log == "s3":  # moto keeps AWS::NoValue in lists
        document = body["Resources"]["GatewayPolicy"]["Properties"]["PolicyDocument"]
        document["Statement"] = [each for each in document["Statement"] if "Sid" in each]
    cloud = boto3.client("cloudformation")
    cloud.create_stack(
        StackName="tidegate",
        TemplateBody=json.dumps(body),
        Parameters=[{"ParameterKey": k, "ParameterValue": v} for k, v in given.items()],
        Capabilities=["CAPABILITY_IAM"],
    )
    (found,) = cloud.describe_stacks(StackName="tidegate")["Stacks"]
    assert found["StackStatus"] == "CREATE_COMPLETE"
    return {each["OutputKey"]: each["OutputValue"] for each in found["Outputs"]} | {"Log": log}


@pytest.mark.slow
def test_moto_makes_three_zones(stack: dict[str, str], tmp_path: Path) -> None:
    groups = boto3.client("autoscaling").describe_auto_scaling_groups()["AutoScalingGroups"]
    zones = {each["Tags"][0]["Value"]: each["AvailabilityZones"] for each in groups}
    assert zones == {"100": [f"{REGION}a"], "200": [f"{REGION}b"], "300": [f"{REGION}c"]}
    assert [len(each["Instances"]) for each in groups] == [1, 1, 1]

    tables = boto3.client("dynamodb").list_tables()["TableNames"]
    assert bool(tables) == (stack["Log"] == "dynamodb")
    endpoints = boto3.client("ec2").describe_vpc_endpoints()["VpcEndpoints"]
    assert len(endpoints) == (2 if tables else 1)

    data = launch_data()
    assert data["MetadataOptions"]["HttpTokens"] == "required"
    assert data["MetadataOptions"]["HttpPutResponseHopLimit"] == 1
    script = base64.b64decode(data["UserData"]).decode()
    assert "${" not in script
    settings_start_a_gateway(script, stack, tmp_path)


def launch_data() -> dict[str, Any]:
    ec2 = boto3.client("ec2")
    (one,) = ec2.describe_launch_templates()["LaunchTemplates"]
    found = ec2.describe_launch_template_versions(LaunchTemplateId=one["LaunchTemplateId"])
    data: dict[str, Any] = found["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    return data


def settings_start_a_gateway(script: str, stack: dict[str, str], folder: Path) -> None:
    """Run the part of the first start that writes files, and check the settings from them."""
    (folder / "etc/boot").mkdir(parents=True)
    (folder / "etc/boot/secrets").write_text("TIDEGATE_PEER_TOKEN=a-long-random-text\n")
    (folder / "etc/boot/server.properties").write_text("num.partitions=6\n")
    answers = (
        "case $1 in local-ipv4) echo 10.0.0.7;; tags/*) echo 100;; *) echo eu-central-1a;; esac"
    )
    done = ran(f"set -eu\nabout() {{ {answers}; }}\n{writing(script, folder)}", folder)
    assert done.returncode == 0, done.stderr

    found = gather(
        defaults={},
        properties_file=folder / "etc/server.properties",
        environ=variables(folder / "etc/secrets"),
        assignments=[],
    )
    check_processes(found, 8)
    assert found.meaningless == []
    assert (found.int("node.id"), found.text("broker.rack")) == (100, "eu-central-1a")
    assert found.int("disk.cache.max.bytes") * 4 == 30 << 30
    assert found.int("num.partitions") == 6
    assert found.secret("peer.token").reveal() == "a-long-random-text"
    role = "&machine_role=true"
    assert found.secret("metadata.log").reveal() == stack["MetadataLog"] + role
    assert found.secret("object.store").reveal() == stack["ObjectStore"] + role
    pipeline = variables(folder / "etc/secrets")["TIDEGATE_PIPELINE_STORE"]
    assert pipeline == stack["ObjectStore"] + role
    assert not (folder / "etc/boot/secrets").exists()


def variables(path: Path) -> dict[str, str]:
    """Return the variables of an EnvironmentFile, as systemd reads it."""
    pairs = (line.partition("=") for line in path.read_text().splitlines())
    return {name: text for name, _, text in pairs}
