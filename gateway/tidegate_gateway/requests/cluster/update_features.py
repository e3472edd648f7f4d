"""UpdateFeatures: versions 0-2 (KIP-584).

Differs from Kafka: the feature is `tidegate.metadata.version`, it never falls, and any gateway may
be asked.  `transaction.version` follows it, so an update to its present level changes nothing, and
others are refused.  As in Kafka since 4.0 a request succeeds or fails as a whole, with one error
for the whole answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import ClassVar, Final

from tidegate_coordination.coordinator.coordinator import Coordinator, ProposalFailed
from tidegate_coordination.events.metadata_versions import FEATURE_NAME, TRANSACTIONS
from tidegate_coordination.rules.metadata_versions import SetMetadataVersion
from tidegate_protocol.apis import ApiKey
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages import update_features as wire
from tidegate_protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

from ...network.call import Call
from .api_versions import TRANSACTION_FEATURE, TRANSACTION_VERSION

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


@dataclass(frozen=True, slots=True)
class UpdateFeaturesHandler:
    """See the module's head."""

    coordinator: Coordinator
    api_key: ClassVar[int] = ApiKey.UPDATE_FEATURES
    messages: ClassVar[ModuleType] = wire

    async def handle(self, call: Call, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
        """Answer for all updates together.

        Raises:
          CoordinatorUnavailable: the outcome is unknown.
        """
        # The replica may not yet know a version that another gateway raised.
        await self.coordinator.catch_up()
        names = [each.feature for each in request.feature_updates]
        if len(set(names)) < len(names):
            text = "Nothing was changed: the request names a feature more than once."
            return UpdateFeaturesResponse(0, ErrorCode.INVALID_REQUEST, text)
        wished = {each.feature: each.max_version_level for each in request.feature_updates}
        for each in request.feature_updates:
            if refusal := self._why_not(each, wished.get(FEATURE_NAME, 0)):
                return _refused(each, refusal)
        for each in request.feature_updates:
            if each.feature != FEATURE_NAME:
                continue
            wish = SetMetadataVersion(each.max_version_level, only_checks=request.validate_only)
            try:
                refusal = await self.coordinator.propose(wish)
            except ProposalFailed as failure:
                text = f"Nothing was changed: {failure}"
                return UpdateFeaturesResponse(0, ErrorCode.FEATURE_UPDATE_FAILED, text)
            if refusal:
                return _refused(each, refusal)
        done = [UpdatableFeatureResult(each.feature, 0, None) for each in request.feature_updates]
        return UpdateFeaturesResponse(error_message=None, results=done)

    def _why_not(self, update: FeatureUpdateKey, wished: int) -> str:
        """Return the error of an update by itself; "" for none.

        wished: metadata.version after the other updates of the request; 0 if it stays.
        """
        if update.feature not in (FEATURE_NAME, TRANSACTION_FEATURE):
            return f"There is no such feature here; there is {FEATURE_NAME}."
        if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            return "The upgrade type is not known."
        present = self.coordinator.state.metadata_version
        if update.feature == TRANSACTION_FEATURE:
            return _why_not_transactions(update.max_version_level, max(present, wished))
        if update.upgrade_type != UPGRADE and update.max_version_level > present:
            return f"It is {present}; a downgrade does not raise it."
        return ""


def _why_not_transactions(level: int, metadata_version: int) -> str:
    if level not in (0, TRANSACTION_VERSION):
        return f"Tidegate has it at 0 or {TRANSACTION_VERSION} only."
    is_on = metadata_version >= TRANSACTIONS
    if is_on and not level:
        return f"It follows {FEATURE_NAME}; {FEATURE_NAME} {metadata_version} cannot be lowered."
    if level and not is_on:
        return f"It follows {FEATURE_NAME}: set {FEATURE_NAME} to {TRANSACTIONS} or more."
    return ""


def _refused(update: FeatureUpdateKey, why: str) -> UpdateFeaturesResponse:
    what = f"Invalid update version {update.max_version_level} for feature {update.feature}."
    return UpdateFeaturesResponse(0, ErrorCode.INVALID_UPDATE_VERSION, f"{what} {why}")
