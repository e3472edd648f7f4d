"""Folders of brokers' logs: their small files, and batches from any offset on."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from pathlib import Path
from struct import pack

import pytest

from tests.worlds.wire_client import records_batch
from tidegate_coordination.state.topics import Topic
from tidegate_pipeline.importing.folder_bounds import (
    FolderBounds,
    PartitionFolder,
    partition_folders,
)
from tidegate_pipeline.importing.log_folders import (
    BadFolder,
    place_of,
    read_checkpoint,
    read_topic_id,
    segment_bases,
)
from tidegate_pipeline.importing.segment_files import portion_of
from tidegate_protocol import batches as pb
from tidegate_protocol.records import walk

CLUSTER = "source-cluster"
# The source knows the topic by its shown id.
TOPIC = Topic(b"s" * 16, "a-topic", [0, 1], 1, {}, shown_id=b"t" * 16)


def batch(base: int, count: int = 2, size: int = 10) -> bytes:
    data = bytearray(records_batch(*[b"v" * size] * count))
    pb.set_base_offset(memoryview(data), 0, base_offset=base, leader_epoch=3)
    return bytes(data)


def segment(folder: Path, base: int, batches: Sequence[bytes], *, padding: int = 0) -> None:
    """Write a segment, and its index with an entry for every second batch."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{base:020}.log").write_bytes(b"".join(batches))
    entries, at = b"", 0
    for number, each in enumerate(batches):
        if number % 2:
            entries += pack(">ii", pb.read_header(each).last_offset - base, at)
        at += len(each)
    (folder / f"{base:020}.index").write_bytes(entries + bytes(8 * padding))


def broker(path: Path, stop: int, *, start: int = 0, cluster: str = CLUSTER) -> Path:
    """Write the folder of a broker with a replica of partition 0."""
    folder = path / "a-topic-0"
    segment(folder, 0, [batch(0), batch(2), batch(9)])
    segment(folder, 11, [batch(11), batch(14)])
    topic_id = urlsafe_b64encode(TOPIC.shown_id).decode().rstrip("=")
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    marks = f"0\n2\na-topic 0 {stop}\nother topic 3 4\n"
    (path / "replication-offset-checkpoint").write_text(marks)
    (path / "log-start-offset-checkpoint").write_text(f"0\n1\na-topic 0 {start}\n")
    (path / "meta.properties").write_text(f"#x\ncluster.id={cluster}\nversion=1\n")
    (path / "a-topic-1.0123abc-delete").mkdir()
    return path


def bases_from(folder: Path, offset: int, most: int = 1 << 20) -> list[int]:
    records = memoryview(portion_of(folder, offset, most))
    return [header.base_offset for _, header in walk(records)]


# -- batches -----------------------------------------------------------------------------------


@pytest.mark.parametrize("index", ["good", "padded", "missing", "damaged"])
def test_every_offset_leads_to_its_batch_or_the_next(tmp_path: Path, index: str) -> None:
    first = [0, 2, 9, 20, 22, 24]
    second = [30, 33]
    segment(tmp_path, 0, [batch(each) for each in first], padding=9 if index == "padded" else 0)
    segment(tmp_path, 28, [batch(each) for each in second])
    for file in tmp_path.glob("*.index"):
        if index == "missing":
            file.unlink()
        elif index == "damaged":
            file.write_bytes(pack(">ii", 0, 13) * 3)
    for offset in range(35):
        whole = first if offset < 26 else second
        assert bases_from(tmp_path, offset) == [each for each in whole if each + 1 >= offset]
    assert bases_from(tmp_path, 35) == []


def test_a_portion_is_bounded_but_for_one_batch(tmp_path: Path) -> None:
    segment(tmp_path, 0, [batch(0, 40, 4000), batch(40), batch(42)])
    assert bases_from(tmp_path, 7, 100) == [0]
    assert len(portion_of(tmp_path, 40, 100)) == 100


def test_a_walk_passes_many_batches_without_an_index(tmp_path: Path) -> None:
    bases = range(0, 8000, 2)
    segment(tmp_path, 0, [batch(each) for each in bases])
    next(tmp_path.glob("*.index")).unlink()
    assert pb.read_header(portion_of(tmp_path, 7001, 200)).base_offset == 7000


# -- small files -------------------------------------------------------------------------------


def test_names_of_folders_and_files() -> None:
    assert place_of("a-b-12") == ("a-b", 12)
    assert place_of("a-b-12.0af-future") is None
    assert place_of("__cluster_metadata") is None
    names = ["00000000000000000011.log", "00000000000000000002.log", "x.log", "1.index"]
    assert segment_bases(names) == [2, 11]


@pytest.mark.parametrize("text", ["0", "0\n2\na 0 1\n", "1\n0\n", "0\n1\na b c\n"])
def test_other_files_are_no_checkpoints(text: str) -> None:
    with pytest.raises(BadFolder, match="no checkpoint"):
        read_checkpoint(text, "file")


def test_a_file_without_a_topic_id_says_so() -> None:
    with pytest.raises(BadFolder, match="no topic id"):
        read_topic_id("version: 0\ntopic_id: ?", "file")


# -- bounds ------------------------------------------------------------------------------------


async def test_the_replica_that_reaches_farthest_is_read(tmp_path: Path) -> None:
    paths = [broker(tmp_path / name, stop) for name, stop in (("a", 11), ("b", 16), ("c", 14))]
    found = partition_folders(paths, CLUSTER)
    assert found["a-topic", 0].path == tmp_path / "b" / "a-topic-0"
    bounds = await FolderBounds(found).bounds([TOPIC])
    assert bounds == {("a-topic", 0): (0, 16), ("a-topic", 1): "no folder has it"}


async def test_a_log_start_and_another_topic(tmp_path: Path) -> None:
    found = partition_folders([broker(tmp_path, 16, start=3)], CLUSTER)
    assert (await FolderBounds(found).bounds([TOPIC]))["a-topic", 0] == (3, 16)
    other = Topic(b"u" * 16, "a-topic", [0], 1, {})
    [text] = (await FolderBounds(found).bounds([other])).values()
    assert "another topic" in str(text)


@pytest.mark.parametrize(
    ("log_start", "end", "is_refused"),
    [(0, 0, True), (0, 5, True), (0, 10, False), (10, 0, False), (10, 5, True), (10, 12, False)],
)
def test_a_folder_without_the_next_records_is_refused(
    tmp_path: Path, log_start: int, end: int, *, is_refused: bool
) -> None:
    """The next records are in tiered storage, or the copy has records that the folder lacks."""
    folder = PartitionFolder(tmp_path, TOPIC.shown_id, 10, 20, log_start)
    text = FolderBounds({("a-topic", 0): folder}).obstacle(TOPIC, 0, end)
    assert bool(text) is is_refused


def test_a_segment_that_is_being_replaced_is_no_gap(tmp_path: Path) -> None:
    folder = broker(tmp_path, 16) / "a-topic-0"
    (folder / f"{0:020}.log.swap").touch()
    with pytest.raises(OSError, match="was compacting it"):
        portion_of(folder, 0, 100)


def test_wrong_folders_are_refused(tmp_path: Path) -> None:
    for path, text in (
        (tmp_path / "nothing", "is no folder"),
        (tmp_path, "no log folder of a Kafka broker"),
        (broker(tmp_path / "x", 1, cluster="other"), "is of cluster other"),
    ):
        with pytest.raises(BadFolder, match=text):
            partition_folders([path], CLUSTER)
