"""Tiered storage as the source of an import; it needs the package cryptography."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from tidegate_coordination.existing import open_existing_store
from tidegate_coordination.refusals import first_of
from tidegate_coordination.state.topics import Topic
from tidegate_runtime.settings_texts import BadSource

from ..importing.tier.bounds import TierBounds, known_segments
from ..importing.tier.chunks import read_private_key
from ..importing.tier.manifests import BadTier
from ..importing.tier.reading import TierOrigin


async def opened_tier(
    url: str, prefix: str, topics: Sequence[Topic], keys: Sequence[str]
) -> tuple[TierBounds, TierOrigin]:
    """Find the topics' segments in tiered storage.  keys: ID=FILE each.

    Raises:
      BadSource: there are no segments, or they do not have the plug-in's form.
    """
    try:
        private = dict(_private_key(each) for each in keys)
        store = open_existing_store(url)
        try:
            found = await known_segments(store, prefix, topics, private)
        finally:
            await store.aclose()
    except* BadTier as errors:
        raise BadSource(f"--tier: {first_of(errors)}") from None
    if not found:
        raise BadSource(f"--tier {url} holds no segment of the link's topics below {prefix!r}")
    return TierBounds(found), TierOrigin(url, found)


def _private_key(text: str) -> tuple[str, RSAPrivateKey]:
    """Read ID=FILE."""
    name, _, file = text.partition("=")
    if not name or not file:
        raise BadTier(f"--tier-key {text} is not ID=FILE")
    try:
        return name, read_private_key(Path(file).read_bytes(), file)
    except OSError as error:
        raise BadTier(f"{file} cannot be read ({error.strerror})") from None
