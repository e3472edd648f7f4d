"""Lines that wait to be written."""

from __future__ import annotations

from tidegate_runtime.line_queue import LineQueue


def queue(max_bytes: int) -> LineQueue:
    return LineQueue(max_bytes, lambda count: b"%d dropped\n" % count)


def written(found: LineQueue, most: int = 1000) -> list[bytes]:
    lines: list[bytes] = []
    while len(lines) < most and (line := found.first()) is not None:
        found.remove_first()
        lines.append(line)
    return lines


def test_lines_come_in_their_order() -> None:
    found = queue(100)
    for number in range(5):
        found.add(b"%d\n" % number)
    assert written(found) == [b"0\n", b"1\n", b"2\n", b"3\n", b"4\n"]
    assert len(found) == 0


def test_the_oldest_lines_stand_and_one_line_tells_of_the_others() -> None:
    found = queue(6)
    for number in range(10):
        found.add(b"%d\n" % number)
    assert len(found) == 4  # with the line about dropped lines
    assert written(found) == [b"0\n", b"1\n", b"2\n", b"7 dropped\n"]
    assert found.dropped == 7
    assert len(found) == 0


def test_what_was_dropped_is_told_where_it_is_missing() -> None:
    found = queue(6)
    for number in range(5):
        found.add(b"%d\n" % number)
    assert written(found, 1) == [b"0\n"]
    found.add(b"5\n")  # more than half of the bound waits
    assert written(found, 2) == [b"1\n", b"2\n"]
    found.add(b"6\n")
    assert written(found) == [b"3 dropped\n", b"6\n"]
    found.add(b"7\n")
    assert written(found) == [b"7\n"]
    assert found.dropped == 3


def test_a_text_of_several_lines_stays_together_and_counts_as_many() -> None:
    found = queue(10)
    found.add(b"a\nb\n")
    found.add(b"a longer\ntext\n")
    assert written(found) == [b"a\nb\n", b"2 dropped\n"]


def test_a_line_that_is_larger_than_the_queue_is_dropped() -> None:
    found = queue(10)
    found.add(b"x" * 11)
    found.add(b"y\n")
    assert written(found) == [b"1 dropped\n", b"y\n"]
