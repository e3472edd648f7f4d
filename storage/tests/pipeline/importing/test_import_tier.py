"""Tiered storage: manifests, chunks in all their forms, the history, batches from any offset on."""

from __future__ import annotations

import hashlib
import json
import os
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from struct import pack
from typing import Any, NamedTuple

import pytest
import zstandard
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.pipeline.importing.test_import_folders import batch
from tidegate_coordination.state.topics import Topic
from tidegate_pipeline.commands.tier_source import opened_tier
from tidegate_pipeline.importing.readers import SourceFailed
from tidegate_pipeline.importing.tier import chunks
from tidegate_pipeline.importing.tier.chunks import read_private_key, unwrapped
from tidegate_pipeline.importing.tier.manifests import (
    BadTier,
    Extent,
    Manifest,
    Segment,
    folder_of,
    lineage,
    read_manifest,
    read_sizes,
)
from tidegate_pipeline.importing.work import ANOTHERS, ImportUnit
from tidegate_protocol import batches as pb
from tidegate_runtime.settings_texts import BadSource
from tidegate_storage.stores.load import open_store

# The source knows the topic by its shown id.
TOPIC = Topic(b"s" * 16, "a-topic", [0, 1], 1, {}, shown_id=b"t" * 16)
UNIT = ImportUnit(
    1, TOPIC.topic_id, TOPIC.shown_id, "a-topic", 0, 0, 1 << 40, ANOTHERS, -1, 1, (0,)
)
PREFIX = "some/prefix-"
KEY = rsa.generate_private_key(65537, 2048)
AAD = b"a" * 32


class Form(NamedTuple):
    """How chunks are stored."""

    is_compressed: bool = False
    is_encrypted: bool = False
    chunk_bytes: int = 100


FORMS = [Form(), Form(True), Form(False, True), Form(True, True, 33), Form(chunk_bytes=1 << 20)]


def wrapped(data_key: bytes) -> str:
    """Wrap a key as RFC 8017 says, with SHA3-512."""
    numbers = KEY.public_key().public_numbers()
    size = KEY.key_size // 8
    digest = hashlib.sha3_512().digest()
    data = digest + bytes(size - len(data_key) - 2 * 64 - 2) + b"\x01" + data_key
    seed = os.urandom(64)
    masked = chunks._xor(data, chunks._mask(seed, len(data)))
    block = b"\0" + chunks._xor(seed, chunks._mask(masked, 64)) + masked
    cipher = pow(int.from_bytes(block, "big"), numbers.e, numbers.n)
    return "key-1:" + b64encode(cipher.to_bytes(size, "big")).decode()


def packed(sizes: Sequence[int]) -> bytes:
    """Pack sizes of chunks."""
    *others, last = sizes
    if not others:
        return pack(">ii", 1, last)
    base = min(others)
    width = max((max(others) - base).bit_length() + 7, 8) // 8
    head = pack(">iiB", len(sizes), base, width)
    return (
        head + b"".join((each - base).to_bytes(width, "big") for each in others) + pack(">i", last)
    )


def chunk_index(sizes: Sequence[int], file_bytes: int, form: Form) -> dict[str, Any]:
    common = {"originalChunkSize": form.chunk_bytes, "originalFileSize": file_bytes}
    if form.is_compressed:
        text = b64encode(zstandard.compress(packed(sizes))).decode()
        return {"type": "variable", **common, "transformedChunks": text}
    return {
        "type": "fixed",
        **common,
        "transformedChunkSize": sizes[0],
        "finalTransformedChunkSize": sizes[-1],
    }


class Tier:
    """A folder with the objects of partition 0."""

    def __init__(self, path: Path, form: Form) -> None:
        self.path = path
        self._form = form
        self._data_key = os.urandom(32)
        self._segments = 0

    def segment(self, start: int, bases: Sequence[int], epochs: dict[int, int]) -> str:
        """Store a segment; return its name."""
        batches = [batch(base) for base in bases]
        whole = b"".join(batches)
        size = self._form.chunk_bytes
        plain = [whole[at : at + size] for at in range(0, len(whole), size)]
        stored = [self._stored(each) for each in plain]
        index, at = b"", 0
        for number, each in enumerate(batches):
            if number % 2:
                index += pack(">ii", pb.read_header(each).last_offset - start, at)
            at += len(each)
        return self._put(start, bases[-1] + 1, epochs, whole, stored, self._encrypted(index))

    def _stored(self, chunk: bytes) -> bytes:
        return self._encrypted(zstandard.compress(chunk) if self._form.is_compressed else chunk)

    def _encrypted(self, data: bytes) -> bytes:
        if not self._form.is_encrypted or not data:
            return data
        iv = os.urandom(12)
        return iv + AESGCM(self._data_key).encrypt(iv, data, AAD)

    def _put(
        self,
        start: int,
        end: int,
        epochs: dict[int, int],
        whole: bytes,
        stored: Sequence[bytes],
        index: bytes,
    ) -> str:
        self._segments += 1
        manifest: dict[str, Any] = {
            "version": "1",
            "chunkIndex": chunk_index([len(each) for each in stored], len(whole), self._form),
            "segmentIndexes": {"offset": {"position": 3, "size": len(index)}},
            "compression": self._form.is_compressed,
            "remoteLogSegmentMetadata": {
                "startOffset": start,
                "endOffset": end,
                "segmentLeaderEpochs": {str(each): first for each, first in epochs.items()},
            },
        }
        if self._form.is_encrypted:
            aad = b64encode(AAD).decode()
            manifest["encryption"] = {"dataKey": wrapped(self._data_key), "aad": aad}
        folder = self.path / folder_of(PREFIX, TOPIC.name, TOPIC.shown_id, 0)
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{start:020}-{self._segments:022}"
        (folder / f"{name}.log").write_bytes(b"".join(stored))
        (folder / f"{name}.indexes").write_bytes(b"xyz" + index + b"more")
        (folder / f"{name}.rsm-manifest").write_text(json.dumps(manifest))
        return str(folder / name)


def key_file(path: Path, key: rsa.RSAPrivateKey = KEY) -> str:
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    (path / "key.pem").write_bytes(pem)
    return f"key-1={path / 'key.pem'}"


def damage(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


async def opened(tmp_path: Path, tier: Tier, *keys: str) -> Any:
    return await opened_tier(f"file:{tier.path}", PREFIX, [TOPIC], keys or [key_file(tmp_path)])


# -- from offsets to batches -------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
async def test_every_offset_leads_to_its_batch_or_the_next(tmp_path: Path, form: Form) -> None:
    tier = Tier(tmp_path / "tier", form)
    first, second = [0, 2, 9, 20, 22, 24], [30, 33]
    tier.segment(0, first, {1: 0})
    tier.segment(26, second, {1: 26})
    side, origin = await opened(tmp_path, tier)
    assert await side.bounds([TOPIC]) == {("a-topic", 0): (0, 35), ("a-topic", 1): (0, 0)}
    async with origin.opened() as reader:
        for offset in range(35):
            records = (await reader.read(UNIT, offset, -1)).records
            whole = first if offset < 26 else second
            expected = b"".join(batch(each) for each in whole if each + 1 >= offset)
            assert records == expected
        assert not (await reader.read(UNIT, 35, -1)).records


async def test_damage_is_said_with_the_object(tmp_path: Path) -> None:
    tier = Tier(tmp_path / "tier", Form(True, True))
    damage(Path(tier.segment(0, [0, 2, 4], {1: 0}) + ".log"))
    _, origin = await opened(tmp_path, tier)
    async with origin.opened() as reader:
        with pytest.raises(SourceFailed, match=r"\.log, chunk 1: it cannot be decrypted"):
            await reader.read(UNIT, 0, -1)


# -- keys --------------------------------------------------------------------------------------


def test_the_padding_is_that_of_the_standard(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenSSL is the oracle, with a hash of the same length that it supports."""
    monkeypatch.setattr(chunks, "sha3_512", hashlib.sha512)
    oaep = padding.OAEP(padding.MGF1(hashes.SHA512()), hashes.SHA512(), None)
    text = b64encode(KEY.public_key().encrypt(b"a key", oaep)).decode()
    assert unwrapped(f"key-1:{text}", {"key-1": KEY}) == b"a key"


def test_wrong_keys_are_refused(tmp_path: Path) -> None:
    other = rsa.generate_private_key(65537, 2048)
    with pytest.raises(BadTier, match="key 'key-1', which was not given"):
        unwrapped(wrapped(b"k" * 32), {})
    with pytest.raises(BadTier, match="another one"):
        unwrapped(wrapped(b"k" * 32), {"key-1": other})
    with pytest.raises(BadTier, match="no private key"):
        read_private_key(b"nothing", "file")


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (("x",), "not ID=FILE"),
        (("key-1=nowhere.pem",), "cannot be read"),
        (("other=KEY",), "which was not given"),
    ],
)
async def test_what_was_typed_wrong_is_said(
    tmp_path: Path, keys: tuple[str, ...], text: str
) -> None:
    tier = Tier(tmp_path / "tier", Form(is_encrypted=True))
    tier.segment(0, [0], {1: 0})
    file = key_file(tmp_path).partition("=")[2]
    with pytest.raises(BadSource, match=text):
        await opened(tmp_path, tier, *(each.replace("KEY", file) for each in keys))


async def test_a_tier_without_the_topics_is_refused(tmp_path: Path) -> None:
    store = open_store(f"file:{tmp_path}")
    await store.aclose()
    with pytest.raises(BadSource, match="holds no segment"):
        await opened_tier(f"file:{tmp_path}", "", [TOPIC], [])


# -- manifests ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sizes", [[7], [100, 7], [70_000, 69_990, 1], [1 << 24, 1, 3], [5, 5, 5, 4]]
)
def test_sizes_of_chunks(sizes: list[int]) -> None:
    assert read_sizes(packed(sizes)) == sizes
    assert read_sizes(pack(">i", 0)) == []


@pytest.mark.parametrize("text", [b"", b"{}", b'{"version":"1"}', b'{"version":"2"}', b"[1]"])
def test_other_objects_are_no_manifests(text: bytes) -> None:
    with pytest.raises(BadTier, match=r"manifest|version"):
        read_manifest(text, "object")


# -- the history -------------------------------------------------------------------------------


def segment(name: str, start: int, stop: int, **epochs: int) -> Segment:
    pairs = tuple(sorted((int(each[1:]), first) for each, first in epochs.items()))
    return Segment(name, Manifest(start, stop, 1, 1, [1], Extent(0, 0), False, "", b"", pairs))


def names(*segments: Segment) -> str:
    return "".join(each.key for each in lineage(segments))


def test_segments_follow_each_other_up_to_a_hole() -> None:
    a, b, c = (segment(name, at, at + 10, e1=at) for name, at in (("a", 0), ("b", 10), ("c", 30)))
    assert names(b, a) == "ab"
    assert names(c, b, a) == "ab"
    assert names() == ""


def test_a_leader_that_was_replaced_left_records_that_do_not_count() -> None:
    a = segment("a", 0, 10, e1=0)
    stale = segment("s", 10, 30, e1=10)
    b = segment("b", 10, 25, e1=10, e2=20)
    c = segment("c", 25, 40, e2=25)
    assert names(a, stale, b, c) == "abc"


def test_a_segment_that_was_stored_twice_counts_once() -> None:
    a, again = segment("a", 0, 10, e1=0), segment("z", 0, 10, e1=0)
    longer = segment("l", 0, 15, e1=0)
    assert names(a, again) == "a"
    assert names(a, longer, segment("b", 10, 20, e1=10)) == "lb"
