"""The feature of the cluster: brokers, API versions, finalized features, and late logins."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from tidegate_coordination.state.cluster import ClusterState
from tidegate_protocol.apis import ApiKey

from ...feature import AnyRow, Feature, Ground, Row, always, never
from ...migration.mirror.linked_names import LinkedNames
from ...security.guard import open_to_all
from ...zones.cluster_view import ClusterView
from .acts import features_changed
from .api_versions import ApiVersions
from .describe_cluster import DescribeClusterHandler
from .describe_quorum import DescribeQuorumHandler
from .guards import guard_describe_cluster, guard_describe_quorum, guard_update_features
from .metadata import MetadataHandler
from .metadata_guard import asks_for_new_topics, guard_metadata
from .metrics import cluster_metrics
from .sasl import LateSaslAuthenticate, LateSaslHandshake
from .update_features import UpdateFeaturesHandler


def cluster_feature(ground: Ground, view: ClusterView) -> Feature:
    """Return the feature; with_api_versions adds the row of ApiVersions."""
    coordinator, settings = ground.coordinator, ground.settings
    state = coordinator.state
    creates_topics = settings.bool("auto.create.topics.enable")
    return Feature(
        "cluster",
        (
            Row(
                MetadataHandler(
                    coordinator, settings, view, ground.new_topic_id, LinkedNames(state.links)
                ),
                guard_metadata,
                lists=True,
                keeps_rows=True,
                proposes=partial(asks_for_new_topics, state.topics) if creates_topics else never,
            ),
            Row(DescribeClusterHandler(coordinator, view), guard_describe_cluster),
            Row(DescribeQuorumHandler(coordinator, view), guard_describe_quorum),
            Row(
                UpdateFeaturesHandler(coordinator),
                guard_update_features,
                max_elements=1_000,
                act=features_changed,
                is_audited=True,
                proposes=always,
            ),
            Row(LateSaslHandshake(), open_to_all),
            Row(LateSaslAuthenticate(), open_to_all),
        ),
        metrics=partial(cluster_metrics, coordinator),
    )


def with_api_versions(rows: Iterable[AnyRow], state: ClusterState) -> list[AnyRow]:
    """Return the rows and the row of ApiVersions, which announces all of them."""
    served = list(rows)
    keys = [ApiKey.API_VERSIONS, *(each.key for each in served)]
    return [Row(ApiVersions(keys, state), open_to_all, is_brief=True), *served]
