"""Gateways as the admin handlers see them, on one log in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import count
from random import Random
from typing import Any

import trio

from tidegate_coordination.coordinator.coordinator import Coordinator
from tidegate_coordination.events.cluster import Endpoint
from tidegate_coordination.log_contract.faulty import FaultyLog, LogFaults
from tidegate_coordination.logs.memory import MemoryLog
from tidegate_coordination.rules.cluster_settings import ClusterSettings, Own
from tidegate_coordination.rules.gateways import Register
from tidegate_coordination.state.cluster import ClusterState
from tidegate_gateway.migration.mirror.linked_names import LinkedNames
from tidegate_gateway.network.call import Call, Peer
from tidegate_gateway.requests.acls.acls import (
    CreateAclsHandler,
    DeleteAclsHandler,
    DescribeAclsHandler,
)
from tidegate_gateway.requests.cluster.api_versions import ApiVersions
from tidegate_gateway.requests.cluster.describe_cluster import DescribeClusterHandler
from tidegate_gateway.requests.cluster.describe_quorum import DescribeQuorumHandler
from tidegate_gateway.requests.cluster.metadata import MetadataHandler
from tidegate_gateway.requests.cluster.update_features import UpdateFeaturesHandler
from tidegate_gateway.requests.configs.alter_configs import AlterConfigsHandler
from tidegate_gateway.requests.configs.describe_configs import DescribeConfigsHandler
from tidegate_gateway.requests.configs.gateway_loggers import GatewayLoggers
from tidegate_gateway.requests.configs.incremental_alter_configs import (
    IncrementalAlterConfigsHandler,
)
from tidegate_gateway.requests.configs.list_config_resources import ListConfigResourcesHandler
from tidegate_gateway.requests.quotas.client_quotas import (
    AlterClientQuotasHandler,
    DescribeClientQuotasHandler,
)
from tidegate_gateway.requests.records.delete_records import DeleteRecordsHandler
from tidegate_gateway.requests.records.describe_producers import DescribeProducersHandler
from tidegate_gateway.requests.topics.alter_partition_reassignments import (
    AlterPartitionReassignmentsHandler,
)
from tidegate_gateway.requests.topics.alter_replica_log_dirs import AlterReplicaLogDirsHandler
from tidegate_gateway.requests.topics.create_partitions import CreatePartitionsHandler
from tidegate_gateway.requests.topics.create_topics import CreateTopicsHandler
from tidegate_gateway.requests.topics.delete_topics import DeleteTopicsHandler
from tidegate_gateway.requests.topics.describe_log_dirs import DescribeLogDirsHandler
from tidegate_gateway.requests.topics.describe_topic_partitions import (
    DescribeTopicPartitionsHandler,
)
from tidegate_gateway.requests.topics.elect_leaders import ElectLeadersHandler
from tidegate_gateway.requests.topics.list_partition_reassignments import (
    ListPartitionReassignmentsHandler,
)
from tidegate_gateway.settings.broker_settings import BrokerSettings
from tidegate_gateway.zones.cluster_view import ClusterView
from tidegate_gateway.zones.zone_finder import ZoneFinder
from tidegate_gateway.zones.zone_settings import zone_maps
from tidegate_protocol.apis import APIS, ApiKey
from tidegate_protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
)
from tidegate_runtime.log_levels import LogLevels

NOW_SECONDS = 1_700_000_000.0


class AdminGateway:
    """One gateway's admin handlers. ask() encodes and decodes requests and answers.

    line: the gateway's own connection to the log, which fails only when a test says so.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        settings: BrokerSettings,
        new_topic_id: Callable[[], bytes],
        line: FaultyLog,
    ) -> None:
        self.coordinator = coordinator
        self.line = line
        has_authorizer = settings.text("authorizer.class.name") != ""
        self.state = coordinator.state
        view = ClusterView(
            coordinator.state, ZoneFinder(zone_maps(settings), coordinator.state.gateways)
        )
        cluster = ClusterSettings(coordinator.state, Own(settings.int("node.id"), settings.static))
        self.cluster = cluster
        self.log_levels = LogLevels()
        loggers = GatewayLoggers(self.log_levels, settings.int("node.id"))
        handlers: list[Any] = [
            MetadataHandler(
                coordinator, settings, view, new_topic_id, LinkedNames(coordinator.state.links)
            ),
            DescribeClusterHandler(coordinator, view),
            DescribeTopicPartitionsHandler(coordinator, settings, view),
            DescribeLogDirsHandler(coordinator, view, settings.int("node.id")),
            CreateTopicsHandler(coordinator, settings, new_topic_id, cluster),
            DeleteTopicsHandler(coordinator, settings),
            CreatePartitionsHandler(coordinator),
            DeleteRecordsHandler(coordinator, cluster),
            DescribeConfigsHandler(coordinator, settings, cluster, loggers),
            AlterConfigsHandler(coordinator),
            IncrementalAlterConfigsHandler(coordinator, loggers),
            ListConfigResourcesHandler(coordinator),
            AlterReplicaLogDirsHandler(coordinator),
            ElectLeadersHandler(coordinator),
            AlterPartitionReassignmentsHandler(coordinator, view),
            ListPartitionReassignmentsHandler(),
            DescribeQuorumHandler(coordinator, view),
            ApiVersions((ApiKey.API_VERSIONS, ApiKey.UPDATE_FEATURES), coordinator.state),
            UpdateFeaturesHandler(coordinator),
            DescribeProducersHandler(coordinator),
            DescribeAclsHandler(coordinator, has_authorizer),
            CreateAclsHandler(coordinator, has_authorizer),
            DeleteAclsHandler(coordinator, has_authorizer),
            DescribeClientQuotasHandler(coordinator),
            AlterClientQuotasHandler(coordinator),
        ]
        self._by_request = {_request_class(each): each for each in handlers}

    async def ask(self, request: Any, version: int | None = None, listener: str = "A") -> Any:
        """Answer a request, by default in the newest version."""
        handler = self._by_request[type(request)]
        newest = APIS[handler.api_key].max_version
        version = newest if version is None else version
        wire = handler.messages
        sent = memoryview(bytes(wire.encode_request(request, version)))
        call = Call(version, "client", Peer("host", 1, listener))
        response = await handler.handle(call, wire.decode_request(sent, version))
        encoded = memoryview(bytes(wire.encode_response(response, version)))
        return wire.decode_response(encoded, version)

    async def handle(self, request: Any) -> Any:
        """Answer a request of the newest version, without the codec."""
        handler = self._by_request[type(request)]
        version = APIS[handler.api_key].max_version
        return await handler.handle(Call(version, "client", Peer("host", 1, "A")), request)

    async def create(
        self, name: str, partitions: int = 1, factor: int = 1, **configs: str
    ) -> CreatableTopicResult:
        """Create a topic; '_' in config names stands for '.'."""
        rows = [CreatableTopicConfig(key.replace("_", "."), text) for key, text in configs.items()]
        topic = CreatableTopic(name, partitions, factor, [], rows)
        response = await self.ask(CreateTopicsRequest([topic]))
        [result] = response.topics
        assert isinstance(result, CreatableTopicResult)
        return result


def _request_class(handler: Any) -> type:
    name = type(handler).__name__.removesuffix("Handler") + "Request"
    cls = getattr(handler.messages, name)
    assert isinstance(cls, type)
    return cls


@asynccontextmanager
async def admin_world(
    *settings: dict[str, str], listeners: tuple[str, ...] = ("A",)
) -> AsyncIterator[list[AdminGateway]]:
    """Run a gateway per dictionary of settings.  Node ids without a setting are 1, 2, ..."""
    log = MemoryLog()
    numbers = count(1)
    rng = Random(1)
    async with trio.open_nursery() as nursery:
        gateways: list[AdminGateway] = []
        for each in settings or ({},):
            node_id = next(numbers)
            static = BrokerSettings({"node.id": str(node_id), **each})
            line = FaultyLog(log, LogFaults(), Random(node_id))
            coordinator = Coordinator(
                line, ClusterState(), rng=Random(node_id), wall_clock=lambda: NOW_SECONDS
            )
            nursery.start_soon(coordinator.run)
            endpoints = tuple(Endpoint(name, f"h{node_id}", 9092) for name in listeners)
            zone = static.text("broker.rack")
            registration = Register(node_id, f"k{node_id}", zone, endpoints, "0", "cluster")
            incarnation = await coordinator.propose(registration)
            assert isinstance(incarnation, int)
            coordinator.incarnation = incarnation
            gateways.append(AdminGateway(coordinator, static, lambda: rng.randbytes(16), line))
        for gateway in gateways:
            await gateway.coordinator.catch_up()
        yield gateways
        nursery.cancel_scope.cancel()
