"""UpdateFeatures: versions 0-2 (KIP-584).  The features are those of ApiVersions.

Differs from Kafka: `tidegate.metadata.version` replaces `metadata.version`, and never falls.
`transaction.version` follows from it, and cannot be set separately.  Any gateway answers.  As in
Kafka since 4.0 a request succeeds or fails as a whole, with one error for the whole answer.
`kafka-features.sh` shows its text, which is Kafka's text if Kafka has the same error.
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
NO_NODE: Final = -1


@dataclass(frozen=True, slots=True)
class UpdateFeaturesHandler:
    """Answers UpdateFeatures requests."""

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
        for each in request.feature_updates:
            if refusal := self._why_not(each):
                return _refused(each, refusal)
        for each in request.feature_updates:
            if each.feature != FEATURE_NAME:
                continue  # transaction.version already has this level
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

    def _why_not(self, update: FeatureUpdateKey) -> str:
        """Return the error of a single update; "" if it is right."""
        level = update.max_version_level
        if update.feature not in (FEATURE_NAME, TRANSACTION_FEATURE):
            unknown = f"{self._controller} does not support this feature."
            return unknown if level else f"Feature {update.feature} not found."
        if update.upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            return "The controller does not support the given upgrade type."
        present = self.coordinator.state.metadata_version
        if update.feature == TRANSACTION_FEATURE:
            present = TRANSACTION_VERSION if present >= TRANSACTIONS else 0
            if not 0 <= level <= TRANSACTION_VERSION:
                return f"{self._controller} only supports versions 0-{TRANSACTION_VERSION}"
        if update.upgrade_type != UPGRADE and level > present:
            return "Can't downgrade to a newer version."
        return _why_not_transactions(update, present) if update.feature != FEATURE_NAME else ""

    @property
    def _controller(self) -> str:
        """Return this gateway as Kafka's texts name a controller."""
        me = self.coordinator.state.gateways.live.get(self.coordinator.incarnation)
        return f"Local controller {me.node_id if me is not None else NO_NODE}"


def _why_not_transactions(update: FeatureUpdateKey, present: int) -> str:
    level = update.max_version_level
    if level == present:
        return ""
    if level > present:
        return (
            f"{TRANSACTION_FEATURE} {TRANSACTION_VERSION} comes with {FEATURE_NAME} {TRANSACTIONS}."
        )
    if update.upgrade_type == UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either"
            " safe or unsafe downgrade."
        )
    return f"{TRANSACTION_FEATURE} is part of {FEATURE_NAME}, which cannot be lowered."


def _refused(update: FeatureUpdateKey, why: str) -> UpdateFeaturesResponse:
    what = f"Invalid update version {update.max_version_level} for feature {update.feature}."
    text = "The update failed for all features since the following feature had an error:"
    return UpdateFeaturesResponse(0, ErrorCode.INVALID_UPDATE_VERSION, f"{text} {what} {why}")
