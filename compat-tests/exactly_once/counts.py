"""The judge of counts: each key's output is 1, 2, ... up to the number of its inputs.  No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crash.ledger import Verdict


def judge_counts(inputs: Mapping[str, int], outputs: Mapping[str, Sequence[int]]) -> Verdict:
    """Compare what was read for each key, in order, with the number of its inputs.

    lost: counts that are missing.  duplicates: counts that are not above the counts before them.
    misplaced: counts above the number of inputs.
    """
    verdict = Verdict()
    for key in sorted(set(inputs) | set(outputs)):
        _judge_key(verdict, key, outputs.get(key, ()), inputs.get(key, 0))
    return verdict


def _judge_key(verdict: Verdict, key: str, counts: Sequence[int], inputs: int) -> None:
    last = 0
    for place, count in enumerate(counts):
        where = f"{key}, record {place}: {count} after {last}"
        if count <= last:
            verdict.duplicates += 1
            verdict.example(where)
        elif count > last + 1:
            verdict.lost += count - last - 1
            verdict.example(where)
        last = max(last, count)
    if last > inputs:
        verdict.misplaced += last - inputs
        verdict.example(f"{key} counts to {last}, but has {inputs} inputs")
    elif last < inputs:
        verdict.lost += inputs - last
        verdict.example(f"{key} counts to {last} only, of {inputs} inputs")
