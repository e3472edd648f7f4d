"""Features that the gateway does not serve, and the client settings that avoid them."""

from __future__ import annotations

from typing import Final, NamedTuple

from tidegate_coordination.events.metadata_versions import FEATURE_NAME
from tidegate_coordination.events.metadata_versions import TRANSACTIONS as LEVEL
from tidegate_protocol.apis import ApiFacts


class Refusal(NamedTuple):
    """what: a short text, one of a few.  advice: for the person who configured the client."""

    what: str
    advice: str


TRANSACTIONS: Final = Refusal(
    f"transactions need {FEATURE_NAME} {LEVEL}",
    "once all gateways run this release, kafka-features.sh upgrade --feature"
    f" {FEATURE_NAME}={LEVEL}; until then unset transactional.id; Kafka Streams:"
    " processing.guarantee=at_least_once",
)
_NEW_GROUPS: Final = Refusal(
    "consumer groups of KIP-848 are not served yet", "set group.protocol=classic"
)
_SHARE_GROUPS: Final = Refusal(
    "share groups are not served yet", "use a KafkaConsumer with a group.id instead"
)
_STREAMS_GROUPS: Final = Refusal(
    "streams groups are not served yet", "set group.protocol=classic in Kafka Streams"
)

BY_KEY: Final = {
    **dict.fromkeys((68, 69), _NEW_GROUPS),
    **dict.fromkeys((76, 77, 78, 79, 90, 91, 92), _SHARE_GROUPS),
    **dict.fromkeys((88, 89), _STREAMS_GROUPS),
}
"""APIs that no feature serves, though the protocol package may know them."""


def is_served(facts: ApiFacts, version: int) -> bool:
    """Return whether a version of an API is served."""
    return facts.min_version <= version <= facts.max_version


def unserved_api(key: int) -> Refusal:
    """Return the refusal of an API that no handler serves."""
    found = BY_KEY.get(key)
    if found is not None:
        return found
    return Refusal(f"unknown API key {key}", "use a client that asks for ApiVersions first")


def unserved_version(facts: ApiFacts, version: int) -> Refusal:
    """Return the refusal of a version of an API that is served in other versions."""
    newest = facts.max_version
    versions = f"{facts.min_version} to {newest}" if newest > facts.min_version else f"{newest}"
    advice = (
        f"served is {facts.name} {versions}: use a newer client, or let it ask for the versions"
        " (kafka-python: no api_version; librdkafka: api.version.request=true)"
    )
    return Refusal(f"{facts.name} version {version} is not served", advice)
