"""The names and manifests of segments in tiered storage.  Pure.

    PREFIX TOPIC-ID/PARTITION/START-SEGMENT.log           the chunks, one after another
    PREFIX TOPIC-ID/PARTITION/START-SEGMENT.indexes       Kafka's indexes, one after another
    PREFIX TOPIC-ID/PARTITION/START-SEGMENT.rsm-manifest  JSON: where chunks and indexes are

ID and SEGMENT are Kafka's uuids, START has 20 digits, and PREFIX may be anything.  A chunk is a
stretch of the broker's segment file, in the form that chunks.py describes. All stretches but the
last have the same size. The stored chunks have one fixed size, or a list of sizes: Base64 of zstd
of

    count i32, base i32, width u8, (count - 1) times size - base of `width` bytes, last size i32

of which a list of one has only count and size, and an empty one only the count.  A former leader
may have left segments with records that were never committed; the manifests say the leader epochs
of each segment.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError
from typing import Any, Final, NamedTuple

import zstandard

_NAME: Final = re.compile(r"(\d{20})-[A-Za-z0-9_-]{22}")
_VERSION: Final = "1"
_INT: Final = Struct(">i")
_HEAD: Final = Struct(">iB")
MAX_SIZES_BYTES: Final = 10 << 20
MANIFEST: Final = ".rsm-manifest"
LOG: Final = ".log"
INDEXES: Final = ".indexes"


class BadTier(Exception):
    """Tiered storage does not have the content of the plug-in.  The text is for a person."""


def folder_of(prefix: str, topic: str, topic_id: bytes, partition: int) -> str:
    """Return the prefix of the keys of a partition."""
    text = urlsafe_b64encode(topic_id).decode().rstrip("=")
    return f"{prefix}{topic}-{text}/{partition}/"


def manifest_names(folder: str, keys: Iterable[str]) -> list[str]:
    """Return the keys of whole segments, without their endings: those with log and manifest."""
    present = set(keys)
    stems = (each.removesuffix(MANIFEST) for each in present if each.endswith(MANIFEST))
    return sorted(
        each
        for each in stems
        if _NAME.fullmatch(each.removeprefix(folder)) and each + LOG in present
    )


class Extent(NamedTuple):
    """Bytes of an object."""

    position: int
    size: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of a segment, whose offsets are [start, stop).

    chunk_bytes: how many bytes of the broker's file are in a chunk. sizes: the sizes of the stored
    chunks.  index: the offset index in the object of indexes.  data_key: the wrapped data key; ""
    if nothing is encrypted.
    epochs: (leader epoch, its first offset here), rising.
    """

    start: int
    stop: int
    file_bytes: int
    chunk_bytes: int
    sizes: Sequence[int]
    index: Extent
    is_compressed: bool
    data_key: str
    aad: bytes
    epochs: tuple[tuple[int, int], ...]


def read_manifest(text: bytes, name: str) -> Manifest:
    """Read a manifest.

    Raises:
      BadTier: the text is no manifest, or this release does not know its version.
    """
    try:
        found: dict[str, Any] = json.loads(text)
        if found["version"] != _VERSION:
            raise BadTier(f"{name} has version {found['version']}, and {_VERSION} is known")
        return _manifest(found)
    except (KeyError, TypeError, ValueError, StructError, zstandard.ZstdError) as error:
        raise BadTier(f"{name} is no manifest of a segment ({error!r})") from None


def _manifest(found: Mapping[str, Any]) -> Manifest:
    chunks, segment = found["chunkIndex"], found["remoteLogSegmentMetadata"]
    index = found["segmentIndexes"]["offset"]
    encryption: dict[str, Any] = found.get("encryption") or {}
    epochs = segment["segmentLeaderEpochs"]
    return Manifest(
        int(segment["startOffset"]),
        int(segment["endOffset"]) + 1,
        int(chunks["originalFileSize"]),
        int(chunks["originalChunkSize"]),
        _sizes(chunks),
        Extent(int(index["position"]), int(index["size"])),
        bool(found["compression"]),
        str(encryption.get("dataKey", "")),
        b64decode(encryption.get("aad", "")),
        tuple(sorted((int(epoch), int(first)) for epoch, first in epochs.items())),
    )


def _sizes(chunks: Mapping[str, Any]) -> Sequence[int]:
    count = -(-int(chunks["originalFileSize"]) // int(chunks["originalChunkSize"]))
    if chunks["type"] == "fixed":
        last = int(chunks["finalTransformedChunkSize"])
        found = [int(chunks["transformedChunkSize"])] * (count - 1) + [last]
    else:
        packed = b64decode(chunks["transformedChunks"])
        plain = zstandard.ZstdDecompressor().decompress(packed, max_output_size=MAX_SIZES_BYTES)
        found = read_sizes(plain)
    if len(found) != count:
        raise ValueError(f"{len(found)} chunks for {count}")
    return found


def read_sizes(packed: bytes) -> list[int]:
    """Read a list of sizes; see the module's head."""
    (count,) = _INT.unpack_from(packed)
    if count == 0:
        return []
    last = _INT.unpack_from(packed, len(packed) - _INT.size)[0]
    if count == 1:
        return [last]
    base, width = _HEAD.unpack_from(packed, _INT.size)
    at = _INT.size + _HEAD.size
    if len(packed) != at + (count - 1) * width + _INT.size:
        raise ValueError("the list of sizes has the wrong length")
    values = [packed[at + n * width : at + (n + 1) * width] for n in range(count - 1)]
    return [base + int.from_bytes(each, "big") for each in values] + [last]


class Segment(NamedTuple):
    """A segment of the partition's history; key: of its objects, without ending."""

    key: str
    manifest: Manifest


def lineage(segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments of the partition's history, without overlaps, up to the first hole.

    A segment has records of another history if, by any segment, a later leader epoch began before
    the end of one of its epochs.
    """
    begins: dict[int, int] = {}
    for each in segments:
        for epoch, first in each.manifest.epochs:
            begins[epoch] = min(first, begins.get(epoch, first))
    good = [each for each in segments if _is_good(each.manifest, begins)]
    # If several begin at the same offset, the longest one comes first.
    good.sort(key=lambda each: (each.manifest.start, -each.manifest.stop))
    found: list[Segment] = []
    for each in good:
        end = found[-1].manifest.stop if found else each.manifest.start
        if each.manifest.start > end:
            break
        if each.manifest.stop > end or not found:
            found.append(each)
    return found


def _is_good(manifest: Manifest, begins: Mapping[int, int]) -> bool:
    ends = [first for _, first in manifest.epochs[1:]] + [manifest.stop]
    return all(
        begins[later] >= end
        for (epoch, _), end in zip(manifest.epochs, ends, strict=True)
        for later in begins
        if later > epoch
    )
