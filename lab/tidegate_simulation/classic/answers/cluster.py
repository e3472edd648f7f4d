"""ApiVersions, Metadata, DescribeCluster and FindCoordinator: as of Kafka 4.3.

The controller that clients see is the cluster's; KRaft shows any broker.
"""

from __future__ import annotations

import re
from typing import Final

import trio

from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import api_versions as av
from tidegate_protocol.messages import describe_cluster as dc
from tidegate_protocol.messages import find_coordinator as fc
from tidegate_protocol.messages import metadata as md
from tidegate_protocol.primitives import ZERO_UUID

from .. import rights
from ..broker_state import Asked
from ..endpoints import Endpoint, endpoint, endpoints
from ..model_cluster import ModelCluster
from ..model_topics import ModelPartition, ModelTopic
from ..profiles import Profile

_TOPIC_NAME: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_CLIENT_NAME: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.\-]*[a-zA-Z0-9])?")
_FIRST_VERSION_WITH_CLIENT_NAME: Final = 3
_FIRST_VERSION_WITH_KEYS: Final = 4
_NOBODY: Final = Endpoint(-1, "", -1, None)
_GROUP_KEY: Final = 0
_TRANSACTION_KEY: Final = 1
_NEW_TOPIC_PARTITIONS: Final = 1


async def answer_api_versions(
    asked: Asked, request: av.ApiVersionsRequest
) -> av.ApiVersionsResponse:
    """Announce what the profile's release announces."""
    await trio.lowlevel.checkpoint()
    if asked.version >= _FIRST_VERSION_WITH_CLIENT_NAME:
        names = request.client_software_name, request.client_software_version
        if not all(_CLIENT_NAME.fullmatch(each) for each in names):
            return av.ApiVersionsResponse(ErrorCode.INVALID_REQUEST)
    profile = asked.broker.cluster.profile
    return av.ApiVersionsResponse(
        api_keys=[av.ApiVersion(key, *each) for key, each in sorted(profile.versions.items())],
        supported_features=[
            av.SupportedFeatureKey(name, *each) for name, each in profile.features.items()
        ],
        finalized_features_epoch=0,
        finalized_features=[
            av.FinalizedFeatureKey(name, level, level) for name, level in profile.finalized.items()
        ],
    )


def unknown_api_versions(profile: Profile) -> av.ApiVersionsResponse:
    """Return the answer, in version 0, to an ApiVersions that the broker cannot read (KIP-511)."""
    own = av.ApiVersion(ApiKey.API_VERSIONS, *profile.versions[ApiKey.API_VERSIONS])
    return av.ApiVersionsResponse(ErrorCode.UNSUPPORTED_VERSION, [own])


async def answer_metadata(asked: Asked, request: md.MetadataRequest) -> md.MetadataResponse:
    """Show brokers and topics; topics by id where the request names ids."""
    await trio.lowlevel.checkpoint()
    cluster = asked.broker.cluster
    response = md.MetadataResponse(
        brokers=[md.MetadataResponseBroker(*each) for each in endpoints(cluster)],
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller,
    )
    topics = request.topics
    if topics is None or (asked.version == 0 and not topics):
        response.topics = [
            _topic(asked, each, request)
            for name, each in cluster.topics.items()
            if asked.may(rights.DESCRIBE, rights.TOPIC, name)
        ]
    elif any(each.topic_id != ZERO_UUID for each in topics):
        ids = dict.fromkeys(each.topic_id for each in topics if each.topic_id != ZERO_UUID)
        response.topics = [_by_id(asked, each, request) for each in ids]
    else:
        names = dict.fromkeys(each.name or "" for each in topics)
        response.topics = [_by_name(asked, each, request) for each in names]
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = _cluster_operations(asked)
    return response


def _cluster_operations(asked: Asked) -> int:
    if not asked.may(rights.DESCRIBE, rights.CLUSTER):
        return 0
    return asked.broker.cluster.rights.operations(asked.principal, rights.CLUSTER)


def _by_id(asked: Asked, topic_id: bytes, request: md.MetadataRequest) -> md.MetadataResponseTopic:
    topic = asked.broker.cluster.topic_named(topic_id)
    if topic is None:
        return md.MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_ID, None, topic_id)
    if not asked.may(rights.DESCRIBE, rights.TOPIC, topic.name):
        return md.MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, topic_id)
    return _topic(asked, topic, request)


def _by_name(asked: Asked, name: str, request: md.MetadataRequest) -> md.MetadataResponseTopic:
    cluster = asked.broker.cluster
    if not asked.may(rights.DESCRIBE, rights.TOPIC, name):
        return md.MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
    topic = cluster.topics.get(name)
    if topic is not None:
        return _topic(asked, topic, request)
    if not _TOPIC_NAME.fullmatch(name) or name in (".", ".."):
        return md.MetadataResponseTopic(ErrorCode.INVALID_TOPIC_EXCEPTION, name)
    if cluster.creates_topics and request.allow_auto_topic_creation:
        if not asked.may(rights.CREATE, rights.TOPIC, name):
            return md.MetadataResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)
        cluster.create_topic(name, _NEW_TOPIC_PARTITIONS)
    return md.MetadataResponseTopic(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name)


def _topic(
    asked: Asked, topic: ModelTopic, request: md.MetadataRequest
) -> md.MetadataResponseTopic:
    cluster = asked.broker.cluster
    answer = md.MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=[_partition(cluster, each) for each in topic.partitions],
    )
    if request.include_topic_authorized_operations:
        answer.topic_authorized_operations = cluster.rights.operations(
            asked.principal, rights.TOPIC, topic.name
        )
    return answer


def _partition(cluster: ModelCluster, partition: ModelPartition) -> md.MetadataResponsePartition:
    leader = endpoint(cluster, partition.leader)
    return md.MetadataResponsePartition(
        ErrorCode.NONE if leader else ErrorCode.LEADER_NOT_AVAILABLE,
        partition.key.partition,
        leader.node_id if leader else -1,
        partition.leader_epoch,
        list(partition.replicas),
        list(partition.isr),
        [each for each in partition.replicas if endpoint(cluster, each) is None],
    )


async def answer_describe_cluster(
    asked: Asked, request: dc.DescribeClusterRequest
) -> dc.DescribeClusterResponse:
    """Show the brokers."""
    await trio.lowlevel.checkpoint()
    cluster = asked.broker.cluster
    response = dc.DescribeClusterResponse(
        cluster_id=cluster.cluster_id,
        controller_id=cluster.controller,
        brokers=[dc.DescribeClusterBroker(*each) for each in endpoints(cluster)],
    )
    if request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = _cluster_operations(asked)
    return response


async def answer_find_coordinator(
    asked: Asked, request: fc.FindCoordinatorRequest
) -> fc.FindCoordinatorResponse:
    """Name the coordinators of groups or transactional ids."""
    await trio.lowlevel.checkpoint()
    if asked.version >= _FIRST_VERSION_WITH_KEYS:
        found = [_coordinator(asked, request.key_type, key) for key in request.coordinator_keys]
        return fc.FindCoordinatorResponse(coordinators=found)
    one = _coordinator(asked, request.key_type, request.key)
    return fc.FindCoordinatorResponse(
        error_code=one.error_code, node_id=one.node_id, host=one.host, port=one.port
    )


def _coordinator(asked: Asked, key_type: int, key: str) -> fc.Coordinator:
    code, cluster = ErrorCode.NONE, asked.broker.cluster
    if key_type == _GROUP_KEY and not asked.may(rights.DESCRIBE, rights.GROUP, key):
        code = ErrorCode.GROUP_AUTHORIZATION_FAILED
    elif key_type == _TRANSACTION_KEY and not asked.may(
        rights.DESCRIBE, rights.TRANSACTIONAL_ID, key
    ):
        code = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    elif key_type not in (_GROUP_KEY, _TRANSACTION_KEY):
        code = ErrorCode.INVALID_REQUEST
    found = endpoint(cluster, cluster.coordinator_of(key)) if code == ErrorCode.NONE else None
    if found is None:
        code = code or ErrorCode.COORDINATOR_NOT_AVAILABLE
    node_id, host, port, _ = found or _NOBODY
    return fc.Coordinator(key, node_id, host, port, code)
