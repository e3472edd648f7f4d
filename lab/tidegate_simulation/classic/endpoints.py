"""Where clients reach a broker.  Pure."""

from __future__ import annotations

from typing import NamedTuple

from .model_cluster import ModelCluster


class Endpoint(NamedTuple):
    """A broker's address; its fields have the order of Kafka's messages."""

    node_id: int
    host: str
    port: int
    rack: str | None


def endpoint(cluster: ModelCluster, node_id: int) -> Endpoint | None:
    """Return the address of a running broker."""
    node = cluster.nodes.get(node_id)
    if node is None or not node.is_up:
        return None
    return Endpoint(node.node_id, node.host, node.port, node.rack)


def endpoints(cluster: ModelCluster) -> list[Endpoint]:
    """Return the addresses of all running brokers."""
    return [Endpoint(each.node_id, each.host, each.port, each.rack) for each in cluster.running]
