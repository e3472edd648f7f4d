"""ApiVersions and UpdateFeatures: the cluster's metadata.version as Kafka's tools see it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worlds.admin_world import AdminGateway, admin_world
from tidegate_coordination.events.metadata_versions import FEATURE_NAME, NEWEST, TRANSACTIONS
from tidegate_coordination.rules.gateways import Register
from tidegate_protocol.error_codes import ErrorCode
from tidegate_protocol.messages.api_versions import ApiVersionsRequest
from tidegate_protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
TRANSACTION_FEATURE = "transaction.version"


async def restarted(gateway: AdminGateway, node_id: int) -> None:
    """Register the gateway again, as one of the newest release."""
    gateway.coordinator.incarnation = 0
    key = f"k{node_id}"
    proposal = Register(node_id, key, "", (), "9.9", "cluster", highest_version=NEWEST)
    answer = await gateway.coordinator.propose(proposal)
    assert isinstance(answer, int)
    gateway.coordinator.incarnation = answer


async def update(
    gateway: AdminGateway, *updates: FeatureUpdateKey, version: int = 2, validate: bool = False
) -> Any:
    return await gateway.ask(UpdateFeaturesRequest(60_000, list(updates), validate), version)


async def shown(gateway: AdminGateway) -> tuple[Any, Any, int]:
    answer = await gateway.ask(ApiVersionsRequest("client", "1"))
    supported, finalized = answer.supported_features[0], answer.finalized_features[0]
    assert supported.name == finalized.name == FEATURE_NAME
    has_transactions = finalized.max_version_level >= TRANSACTIONS
    assert [each.name for each in answer.finalized_features[1:]] == (
        ["transaction.version"] if has_transactions else []
    )
    return (
        (supported.min_version, supported.max_version),
        (finalized.min_version_level, finalized.max_version_level),
        answer.finalized_features_epoch,
    )


@pytest.mark.parametrize("version", range(3))
async def test_an_upgrade_shows_everywhere(version: int) -> None:
    async with admin_world({}, {}) as [one, two]:
        await restarted(one, 1)
        await restarted(two, 2)
        supported, finalized, epoch = await shown(one)
        assert (supported, finalized) == ((1, NEWEST), (1, 1))
        answer = await update(two, FeatureUpdateKey(FEATURE_NAME, NEWEST), version=version)
        assert (answer.error_code, answer.error_message) == (0, None)
        assert [(each.feature, each.error_code) for each in answer.results] == (
            [(FEATURE_NAME, 0)] if version < 2 else []
        )
        await one.coordinator.catch_up()
        assert (await shown(one))[1] == (NEWEST, NEWEST)
        assert (await shown(one))[2] > epoch


async def test_asked_only_whether_it_could_be_done_it_is_not_done() -> None:
    async with admin_world() as [gateway]:
        await restarted(gateway, 1)
        answer = await update(gateway, FeatureUpdateKey(FEATURE_NAME, NEWEST), validate=True)
        assert answer.error_code == 0
        assert gateway.state.metadata_version == 1


async def test_a_refusal_names_the_gateways_that_are_behind() -> None:
    async with admin_world({}, {}) as [one, two]:
        await restarted(one, 1)
        for validate in (True, False):
            answer = await update(one, FeatureUpdateKey(FEATURE_NAME, NEWEST), validate=validate)
            assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
            assert "gateway 2 (release 0, up to 1)" in answer.error_message
        assert two.state.metadata_version == 1


@pytest.mark.parametrize(
    ("name", "version", "kind", "text"),
    [
        ("metadata.version", 7, UPGRADE, "Local controller 1 does not support this feature."),
        ("metadata.version", 0, SAFE_DOWNGRADE, "Feature metadata.version not found."),
        (TRANSACTION_FEATURE, 3, UPGRADE, "Local controller 1 only supports versions 0-2"),
        (TRANSACTION_FEATURE, 2, SAFE_DOWNGRADE, "Can't downgrade to a newer version."),
        (TRANSACTION_FEATURE, 2, UPGRADE, f"2 comes with {FEATURE_NAME} {TRANSACTIONS}."),
        (TRANSACTION_FEATURE, 1, UPGRADE, f"2 comes with {FEATURE_NAME} {TRANSACTIONS}."),
        (FEATURE_NAME, NEWEST + 1, UPGRADE, f"knows {FEATURE_NAME} 1 to {NEWEST}"),
        (FEATURE_NAME, 0, SAFE_DOWNGRADE, f"knows {FEATURE_NAME} 1 to {NEWEST}"),
        (FEATURE_NAME, NEWEST, SAFE_DOWNGRADE, "Can't downgrade to a newer version."),
        (FEATURE_NAME, NEWEST, 9, "The controller does not support the given upgrade type."),
    ],
)
async def test_an_impossible_feature_update_gets_a_sentence(
    name: str, version: int, kind: int, text: str
) -> None:
    async with admin_world() as [gateway]:
        await restarted(gateway, 1)
        good = FeatureUpdateKey(FEATURE_NAME, NEWEST)
        bad = FeatureUpdateKey(name, version, upgrade_type=kind)
        answer = await update(gateway, good, bad) if name != FEATURE_NAME else None
        if answer is not None:
            assert gateway.state.metadata_version == 1
        answer = await update(gateway, bad)
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        prefix = (
            "The update failed for all features since the following feature had an error:"
            f" Invalid update version {version} for feature {name}. "
        )
        assert answer.error_message.startswith(prefix)
        assert text in answer.error_message
        assert gateway.state.metadata_version == 1


@pytest.mark.parametrize(
    ("level", "kind", "text"),
    [
        (2, UPGRADE, ""),
        (2, SAFE_DOWNGRADE, ""),
        (1, UPGRADE, "without setting the upgrade type to either safe or unsafe downgrade."),
        (1, SAFE_DOWNGRADE, f"{TRANSACTION_FEATURE} is part of {FEATURE_NAME}"),
        (0, UNSAFE_DOWNGRADE, f"{TRANSACTION_FEATURE} is part of {FEATURE_NAME}"),
    ],
)
async def test_transaction_version_stays_as_it_is(level: int, kind: int, text: str) -> None:
    async with admin_world() as [gateway]:
        await restarted(gateway, 1)
        await update(gateway, FeatureUpdateKey(FEATURE_NAME, NEWEST))
        wish = FeatureUpdateKey(TRANSACTION_FEATURE, level, upgrade_type=kind)
        for validate in (True, False):
            answer = await update(gateway, wish, validate=validate)
            assert (answer.error_code == 0) is (not text)
            assert text in (answer.error_message or "")


@pytest.mark.parametrize("second", [NEWEST, 1])
async def test_a_feature_that_is_named_twice_is_not_changed(second: int) -> None:
    async with admin_world() as [gateway]:
        await restarted(gateway, 1)
        twice = [FeatureUpdateKey(FEATURE_NAME, each) for each in (NEWEST, second)]
        answer = await update(gateway, *twice)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert "more than once" in answer.error_message
        assert gateway.state.metadata_version == 1


async def test_metadata_version_never_falls() -> None:
    async with admin_world() as [gateway]:
        await restarted(gateway, 1)
        await update(gateway, FeatureUpdateKey(FEATURE_NAME, NEWEST))
        for kind in (UPGRADE, SAFE_DOWNGRADE, 3):
            answer = await update(gateway, FeatureUpdateKey(FEATURE_NAME, 1, upgrade_type=kind))
            assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
            assert "cannot be lowered" in answer.error_message
        again = await update(gateway, FeatureUpdateKey(FEATURE_NAME, NEWEST))
        assert again.error_code == 0
