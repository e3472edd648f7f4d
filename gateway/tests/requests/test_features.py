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

UPGRADE, SAFE_DOWNGRADE = 1, 2


async def restarted(gateway: AdminGateway, node_id: int) -> None:
    """Begin its next life, of the newest release."""
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
        ("metadata.version", 7, UPGRADE, "no such feature here"),
        (FEATURE_NAME, NEWEST + 1, UPGRADE, f"knows {FEATURE_NAME} 1 to {NEWEST}"),
        (FEATURE_NAME, 0, SAFE_DOWNGRADE, f"knows {FEATURE_NAME} 1 to {NEWEST}"),
        (FEATURE_NAME, NEWEST, SAFE_DOWNGRADE, "a downgrade does not raise"),
        (FEATURE_NAME, NEWEST, 9, "not known"),
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
        assert text in answer.error_message
        assert gateway.state.metadata_version == 1


TV = "transaction.version"


@pytest.mark.parametrize("kind", [UPGRADE, SAFE_DOWNGRADE, 3])
async def test_transaction_version_may_be_set_to_what_it_is(kind: int) -> None:
    async with admin_world() as [gateway]:
        await restarted(gateway, 1)
        none = FeatureUpdateKey(TV, 0, upgrade_type=kind)
        assert (await update(gateway, none)).error_code == 0
        await update(gateway, FeatureUpdateKey(FEATURE_NAME, NEWEST))
        for validate in (True, False):
            same = FeatureUpdateKey(TV, 2, upgrade_type=kind)
            answer = await update(gateway, same, version=1, validate=validate)
            assert (answer.error_code, answer.error_message) == (0, None)
            assert [(each.feature, each.error_code) for each in answer.results] == [(TV, 0)]


async def test_both_features_may_be_raised_at_once() -> None:
    async with admin_world() as [gateway]:
        await restarted(gateway, 1)
        both = [FeatureUpdateKey(TV, 2), FeatureUpdateKey(FEATURE_NAME, TRANSACTIONS)]
        assert (await update(gateway, *both)).error_code == 0
        assert gateway.state.metadata_version == TRANSACTIONS


@pytest.mark.parametrize(
    ("is_raised", "version", "kind", "text"),
    [
        (False, 2, UPGRADE, f"set {FEATURE_NAME} to {TRANSACTIONS} or more"),
        (False, 1, UPGRADE, "Tidegate has it at 0 or 2 only"),
        (True, 1, SAFE_DOWNGRADE, "Tidegate has it at 0 or 2 only"),
        (True, 3, UPGRADE, "Tidegate has it at 0 or 2 only"),
        (True, 0, SAFE_DOWNGRADE, f"{FEATURE_NAME} {NEWEST} cannot be lowered"),
        (True, 2, 9, "not known"),
    ],
)
async def test_transaction_version_follows_metadata_version(
    is_raised: bool, version: int, kind: int, text: str
) -> None:
    async with admin_world() as [gateway]:
        await restarted(gateway, 1)
        if is_raised:
            await update(gateway, FeatureUpdateKey(FEATURE_NAME, NEWEST))
        answer = await update(gateway, FeatureUpdateKey(TV, version, upgrade_type=kind))
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert text in answer.error_message


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
