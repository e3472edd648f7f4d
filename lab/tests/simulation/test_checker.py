"""The checker, fed with good and bad histories made by hand."""

from __future__ import annotations

import pytest

from tests.worlds.checker_history import (
    Write,
    assign,
    commit,
    drained,
    end,
    fetched,
    kinds,
    new_history,
    poll,
    poll_fails,
    send,
    trim,
)
from tidegate_simulation.checks.checker import check
from tidegate_simulation.checks.history import History, read_lines

# -- bad ones -------------------------------------------------------------------------------------


def lost_behind_a_last_reader(h: History) -> None:
    send(h, [1], 0)
    send(h, [2], 1)
    assign(h, 0)
    poll(h, [(1, 2)], 1)
    drained(h, 2)


def lost_without_an_offset(h: History) -> None:
    send(h, [1], -1, producer=[7, 0])
    drained(h, 0)


def lost_below_the_highest_read(h: History) -> None:
    send(h, [1], 0)
    send(h, [2], 1)
    assign(h, 0)
    poll(h, [(1, 2)], 1)


def lost_part_of_a_batch(h: History) -> None:
    send(h, [1, 2, 3], 0)
    assign(h, 0)
    poll(h, [(0, 1), (1, 2)], 0)
    drained(h, 3)


def never_read_after_healing(h: History) -> None:
    send(h, [1], 0)
    h.note("nemesis", "info", "healed", None)


def twice_in_the_log(h: History) -> None:
    send(h, [1], 0, producer=[7, 0])
    assign(h, 0)
    poll(h, [(0, 1), (1, 1)], 0)
    drained(h, 2)


def twice_to_two_readers(h: History) -> None:
    send(h, [1], None, producer=[7, 0])
    assign(h, 0, process="r1")
    poll(h, [(0, 1)], 0, process="r1")
    poll(h, [(4, 1)], 4, process="r2")


def two_values_at_an_offset(h: History) -> None:
    send(h, [1], None)
    send(h, [2], None)
    poll(h, [(0, 1)], 0, process="r1")
    poll(h, [(0, 2)], 0, process="r2")


def acknowledged_elsewhere(h: History) -> None:
    send(h, [1], 3)
    poll(h, [(0, 1)], 0)


def reordered_by_acknowledgement(h: History) -> None:
    send(h, [1], 5)
    send(h, [2], 4)
    poll(h, [(4, 2), (5, 1)], 4)


def reordered_batches_of_a_producer(h: History) -> None:
    send(h, [1], None, producer=[7, 0])
    send(h, [2], None, producer=[7, 0])
    poll(h, [(0, 2), (1, 1)], 0)


def reordered_inside_a_batch(h: History) -> None:
    send(h, [1, 2], None, producer=[7, 0])
    poll(h, [(0, 2), (1, 1)], 0)


def poll_goes_back(h: History) -> None:
    send(h, [1], 0)
    send(h, [2], 1)
    assign(h, 0)
    poll(h, [(0, 1), (1, 2)], 0)
    poll(h, [(0, 1)], 0)


def poll_in_disorder(h: History) -> None:
    send(h, [1], None)
    send(h, [2], None)
    assign(h, 0)
    poll(h, [(1, 2), (0, 1)], 0, 2)


def another_keys_record(h: History) -> None:
    send(h, [1], None, key=1)
    poll(h, [(0, 1)], 0)


def nobodys_record(h: History) -> None:
    poll(h, [(0, 99)], 0)


def read_before_it_was_sent(h: History) -> None:
    poll(h, [(0, 1)], 0)
    send(h, [1], 0)


def failed_and_read(h: History) -> None:
    send(h, [1], None, error="NOT_ENOUGH_REPLICAS")
    poll(h, [(0, 1)], 0)


def skipped_inside_a_poll(h: History) -> None:
    send(h, [1, 2, 3], 0)
    poll(h, [(0, 1), (1, 2), (2, 3)], 0, process="r1")
    poll(h, [(0, 1), (2, 3)], 0, process="r2")


def skipped_at_the_front(h: History) -> None:
    send(h, [1, 2], 0)
    poll(h, [(0, 1), (1, 2)], 0, process="r1")
    poll(h, [(1, 2)], 0, process="r2")


def skipped_by_an_empty_poll(h: History) -> None:
    send(h, [1], 0)
    poll(h, [(0, 1)], 0, process="r1")
    poll(h, [], 0, 1, process="r2")


def told_out_of_range(h: History) -> None:
    send(h, [1], 0)
    poll(h, [(0, 1)], 0)
    poll_fails(h, 1)


def told_out_of_range_at_zero(h: History) -> None:
    poll_fails(h, 0)


def end_below_an_acknowledged_record(h: History) -> None:
    send(h, [1, 2], 0)
    poll(h, [(0, 1), (1, 2)], 0)
    end(h, 1)


def end_below_a_read_record(h: History) -> None:
    send(h, [1], None)
    poll(h, [(0, 1)], 0)
    end(h, 0)


def next_batch_refused(h: History) -> None:
    send(h, [1], None, producer=[7, 0], error="OUT_OF_ORDER_SEQUENCE_NUMBER")


def commit_vanishes(h: History) -> None:
    commit(h, 5)
    fetched(h, None)


def commit_goes_back(h: History) -> None:
    commit(h, 5)
    commit(h, 9)
    fetched(h, 5)


def commit_that_nobody_made(h: History) -> None:
    commit(h, 5)
    fetched(h, 6)


def commit_of_another_group(h: History) -> None:
    commit(h, 5, group="g1")
    fetched(h, 5, group="g2")


def failed_commit_read(h: History) -> None:
    commit(h, 5)
    commit(h, 6, "fail")
    fetched(h, 6)


def commit_from_the_future(h: History) -> None:
    fetched(h, 5)
    commit(h, 5)


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lost_behind_a_last_reader, "lost"),
        (lost_without_an_offset, "lost"),
        (lost_below_the_highest_read, "lost"),
        (lost_part_of_a_batch, "lost"),
        (never_read_after_healing, "unseen"),
        (twice_in_the_log, "duplicate"),
        (twice_to_two_readers, "duplicate"),
        (two_values_at_an_offset, "inconsistent offset"),
        (acknowledged_elsewhere, "inconsistent offset"),
        (reordered_by_acknowledgement, "reordered send"),
        (reordered_batches_of_a_producer, "reordered send"),
        (reordered_inside_a_batch, "reordered send"),
        (poll_goes_back, "non-monotonic poll"),
        (poll_in_disorder, "non-monotonic poll"),
        (another_keys_record, "foreign record"),
        (nobodys_record, "phantom"),
        (read_before_it_was_sent, "phantom"),
        (failed_and_read, "failed write"),
        (skipped_inside_a_poll, "skipped"),
        (skipped_at_the_front, "skipped"),
        (skipped_by_an_empty_poll, "skipped"),
        (told_out_of_range, "false out of range"),
        (told_out_of_range_at_zero, "false out of range"),
        (end_below_an_acknowledged_record, "stale end"),
        (end_below_a_read_record, "stale end"),
        (next_batch_refused, "refused send"),
        (commit_vanishes, "vanished commit"),
        (commit_goes_back, "stale commit"),
        (commit_that_nobody_made, "stale commit"),
        (commit_of_another_group, "stale commit"),
        (failed_commit_read, "stale commit"),
        (commit_from_the_future, "stale commit"),
    ],
)
def test_anomaly_is_found_and_nothing_else(write: Write, expected: str) -> None:
    assert kinds(write) == [expected]


# -- good ones ------------------------------------------------------------------------------------


def nothing(h: History) -> None:
    pass


def all_is_read(h: History) -> None:
    send(h, [1, 2], 0, producer=[7, 0])
    send(h, [3], -1, producer=[7, 0])
    assign(h, 0)
    poll(h, [(0, 1)], 0)
    poll(h, [(1, 2), (2, 3)], 1)
    poll(h, [], 3)
    end(h, 3)
    drained(h, 3)


def offsets_with_gaps(h: History) -> None:
    send(h, [1], 0)
    send(h, [2], 5)
    assign(h, 0)
    poll(h, [(0, 1), (5, 2)], 0)
    drained(h, 6)


def unknown_and_never_seen(h: History) -> None:
    send(h, [1], None)
    send(h, [2], 0)
    poll(h, [(0, 2)], 0)
    drained(h, 1)


def plain_unknown_lands_later(h: History) -> None:
    send(h, [1], None)
    send(h, [2], 0)
    poll(h, [(0, 2), (1, 1)], 0)


def two_producers_interleave(h: History) -> None:
    send(h, [1], 1, process="p1", producer=[7, 0])
    send(h, [2], 0, process="p2", producer=[8, 0])
    poll(h, [(0, 2), (1, 1)], 0)


def assigned_anew(h: History) -> None:
    send(h, [1], 0)
    assign(h, 0)
    poll(h, [(0, 1)], 0)
    assign(h, 0)
    poll(h, [(0, 1)], 0)


def trimmed_records_are_gone(h: History) -> None:
    send(h, [1, 2, 3], 0)
    trim(h, 2)
    assign(h, 0)
    poll_fails(h, 0)
    poll(h, [(2, 3)], 2)
    drained(h, 3)


def skipped_because_trimmed(h: History) -> None:
    send(h, [1, 2, 3], 0)
    poll(h, [(0, 1), (1, 2), (2, 3)], 0, process="r1")
    trim(h, 2)
    poll(h, [(2, 3)], 0, process="r2")


def commits_read_back(h: History) -> None:
    fetched(h, None)
    commit(h, 5)
    fetched(h, 5)
    commit(h, 3)
    fetched(h, 3)


def commit_with_unknown_outcome(h: History) -> None:
    commit(h, 5)
    commit(h, 9, "info")
    fetched(h, 5)
    fetched(h, 9)


def commit_under_way(h: History) -> None:
    invoke = commit(h, 5, "open")
    fetched(h, None)
    h.ok(invoke)
    fetched(h, 5)


@pytest.mark.parametrize(
    "write",
    [
        nothing,
        all_is_read,
        offsets_with_gaps,
        unknown_and_never_seen,
        plain_unknown_lands_later,
        two_producers_interleave,
        assigned_anew,
        trimmed_records_are_gone,
        skipped_because_trimmed,
        commits_read_back,
        commit_with_unknown_outcome,
        commit_under_way,
    ],
)
def test_nothing_is_found_where_nothing_is_wrong(write: Write) -> None:
    assert kinds(write) == []


def test_a_history_survives_its_lines() -> None:
    history = new_history()
    all_is_read(history)
    read = read_lines(history.lines())
    assert [each.as_json() for each in read] == history.lines()
    assert check(read) == []
