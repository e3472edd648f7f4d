"""ApiVersions: versions 0-4.

The answer is built from the table of handlers, so a gateway announces exactly the APIs that it
serves.  Two features are finalized (KIP-584).  The first is `tidegate.metadata.version`; decision
18 says why it is not called `metadata.version`.  The second is `transaction.version`, once the
cluster's version has transactions.  Clients then use the newest protocol (KIP-890), unless gateways
forward transactional ids to a source without it.  A request above version 4 is answered in version
0 with UNSUPPORTED_VERSION and the list (dispatch.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

from tidegate_coordination.events.metadata_versions import FEATURE_NAME, FIRST, TRANSACTIONS
from tidegate_coordination.state.cluster import ClusterState
from tidegate_protocol.apis import APIS, ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import api_versions as wire
from tidegate_protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

from ...network.call import Call
from ...network.client_software import is_well_told, software_of

TRANSACTION_FEATURE: Final = "transaction.version"
TRANSACTION_VERSION: Final = 2
# The version from which clients can read a feature whose lowest level is 0 (KAFKA-17492).
LEVEL_ZERO_SINCE: Final = 4


@dataclass(frozen=True, slots=True)
class ApiVersions:
    """See the module's head.  served: keys of all APIs with a handler."""

    served: Iterable[int]
    state: ClusterState
    api_key: ClassVar[int] = ApiKey.API_VERSIONS
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: ApiVersionsRequest | None) -> ApiVersionsResponse:
        """Return the list of APIs; request is None if its version is unknown."""
        if request is None:
            return self._answer(ErrorCode.UNSUPPORTED_VERSION, call.version)
        if not is_well_told(request, call.version):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        call.peer.software = software_of(request, call.version)
        return self._answer(ErrorCode.NONE, call.version)

    def _answer(self, error: ErrorCode, request_version: int) -> ApiVersionsResponse:
        keys = [
            ApiVersion(key, APIS[key].announced_min_version, APIS[key].max_version)
            for key in sorted(self.served)
        ]
        state, version = self.state, self.state.metadata_version
        supported = [SupportedFeatureKey(FEATURE_NAME, FIRST, state.highest_version)]
        if request_version >= LEVEL_ZERO_SINCE:
            supported.append(SupportedFeatureKey(TRANSACTION_FEATURE, 0, TRANSACTION_VERSION))
        finalized = [FinalizedFeatureKey(FEATURE_NAME, version, version)]
        if version >= TRANSACTIONS:
            highest = min(TRANSACTION_VERSION, *self._versions_of_sources())
            if highest:
                finalized.append(FinalizedFeatureKey(TRANSACTION_FEATURE, highest, highest))
        return ApiVersionsResponse(
            error_code=error,
            api_keys=keys,
            supported_features=supported,
            # The epoch must rise, since clients keep the features of the highest epoch that they
            # have seen.
            finalized_features_epoch=state.position,
            finalized_features=finalized,
        )

    def _versions_of_sources(self) -> list[int]:
        """Return the versions of sources whose transactional ids gateways still forward."""
        moved = self.state.link_groups.moved_ids
        left = (
            each
            for each in self.state.links.with_ids
            if not moved.get(each.name, set()).issuperset(each.transactional_ids)
        )
        return [TRANSACTION_VERSION, *(each.transaction_version for each in left)]
