"""The features of a source's brokers that transactions need."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

from tidegate_coordination.client.cluster import ClassicCluster
from tidegate_coordination.client.errors import Refused
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

FEATURE: Final = "transaction.version"
NEEDED: Final = frozenset(
    {ApiKey.LIST_TRANSACTIONS, ApiKey.DESCRIBE_TRANSACTIONS, ApiKey.DESCRIBE_PRODUCERS}
)
_SOFTWARE: Final = "tidegate"


async def transaction_version(cluster: ClassicCluster) -> int | None:
    """Return the finalized transaction.version of a source, 0 for none.

    Return None for a source before Kafka 3.0, which does not show its transactional ids (KIP-664).

    Raises:
      ClassicError: the source does not answer, or refuses.
    """
    request = ApiVersionsRequest(_SOFTWARE, version(_SOFTWARE))
    answer: ApiVersionsResponse = await cluster.call_any("ApiVersions", request)
    if answer.error_code:
        raise Refused("the versions of the source", answer.error_code)
    if not {each.api_key for each in answer.api_keys} >= NEEDED:
        return None
    features = {each.name: each.max_version_level for each in answer.finalized_features}
    return features.get(FEATURE, 0)
