"""Pauses after failures: each is longer, within bounds, and old ones are removed."""

from tidegate_pipeline.planning.pauses import FIRST_PAUSE_SECONDS, LAST_PAUSE_SECONDS, Pauses, Work


def test_pauses_double_up_to_the_longest() -> None:
    pauses = Pauses()
    now, seconds = 0.0, list[float]()
    for _ in range(3_000):  # 2.0 ** 1024 would be too large for a float
        seconds.append(pauses.failed((Work.MERGE, 1, 7), now))
        now += seconds[-1]
    assert seconds[:4] == [5.0, 10.0, 20.0, 40.0]
    assert seconds[-1] == max(seconds) == LAST_PAUSE_SECONDS


def test_only_the_failed_stretch_is_paused() -> None:
    pauses = Pauses()
    pauses.failed((Work.MERGE, 1, 7), 100.0)
    assert pauses.is_paused((Work.MERGE, 1, 7), 104.9)
    assert not pauses.is_paused((Work.MERGE, 1, 7), 100.0 + FIRST_PAUSE_SECONDS)
    assert not pauses.is_paused((Work.MERGE, 1, 8), 101.0)
    assert not pauses.is_paused((Work.MERGE, 2, 7), 101.0)
    assert not pauses.is_paused((Work.COMPACTION, 1, 7), 101.0)


def test_success_resets_the_pause_of_its_stretch_only() -> None:
    pauses = Pauses()
    for base_offset in (7, 8, 8):
        pauses.failed((Work.MERGE, 1, base_offset), 0.0)
    pauses.done((Work.MERGE, 1, 7))
    pauses.done((Work.MERGE, 1, 9))
    assert not pauses.is_paused((Work.MERGE, 1, 7), 0.0)
    assert pauses.failed((Work.MERGE, 1, 7), 0.0) == FIRST_PAUSE_SECONDS
    assert pauses.failed((Work.MERGE, 1, 8), 0.0) == 4 * FIRST_PAUSE_SECONDS


def test_stretches_that_are_not_tried_again_are_removed() -> None:
    pauses = Pauses()
    pauses.failed((Work.MERGE, 1, 7), 0.0)
    pauses.prune(FIRST_PAUSE_SECONDS + LAST_PAUSE_SECONDS - 1)
    assert len(pauses) == 1
    pauses.prune(FIRST_PAUSE_SECONDS + LAST_PAUSE_SECONDS)
    assert len(pauses) == 0
