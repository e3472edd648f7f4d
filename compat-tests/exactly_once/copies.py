"""The judge of copies: the output is the input, exactly once, in the order of each partition.

Record n of the input lies in partition n mod `partitions`, so a check needs no memory of what was
written.  No I/O here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256

from crash.ledger import Verdict

FOREIGN = -1


def value_of(number: int, size: int) -> bytes:
    """Return the value of a record: its number, then bytes that no codec can compress."""
    head = b"%d " % number
    noise = sha256(head).hexdigest().encode()
    return (head + noise * (size // len(noise) + 1))[: max(size, len(head))]


def number_of(value: bytes | None, size: int) -> int:
    """Return the number of a record, or FOREIGN if value_of() never gives this value."""
    head, _, _ = (value or b"").partition(b" ")
    if not head.isdigit():
        return FOREIGN
    number = int(head)
    return number if value == value_of(number, size) else FOREIGN


def judge_copies(found: Mapping[int, Sequence[int]], records: int, partitions: int) -> Verdict:
    """Compare the numbers that were read, in order, with those that were written."""
    verdict = Verdict()
    for partition in range(partitions):
        _judge_partition(
            verdict, partition, found.get(partition, ()), range(partition, records, partitions)
        )
    return verdict


def _judge_partition(
    verdict: Verdict, partition: int, numbers: Sequence[int], wanted: range
) -> None:
    seen: set[int] = set()
    highest = FOREIGN
    for place, number in enumerate(numbers):
        where = f"partition {partition}, record {place}: {number}"
        if number not in wanted:
            verdict.misplaced += 1
            verdict.example(f"{where} does not belong there")
            continue
        if number in seen:
            verdict.duplicates += 1
            verdict.example(f"{where} again")
        elif number < highest:
            verdict.out_of_order += 1
            verdict.example(f"{where} after {highest}")
        seen.add(number)
        highest = max(highest, number)
    lost = len(wanted) - len(seen)
    if lost:
        verdict.lost += lost
        first = next(each for each in wanted if each not in seen)
        verdict.example(f"partition {partition}: {lost} are missing, first {first}")
