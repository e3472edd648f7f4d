"""Checks of consume-process-produce: each committed input has one committed output.

    etl        note ok {"in", "out"}: keys of inputs and outputs
    processed  note ok {"in"}: clients have processed all of these keys

The send of outputs has a list "of": for each of its values, the input value that it was made from.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from .facts import Facts, Violation, value_of


def processed_once(facts: Facts) -> Iterator[Violation]:
    """Processed twice: an input has two visible outputs.  Not processed: it has none at the end.

    Reordered output: outputs of one input key stand in another order than the inputs.
    """
    outputs = _outputs(facts)
    if not outputs and not any(True for _ in facts.finished("processed")):
        return
    visible = _committed_places(facts)
    for source, made in outputs.items():
        seen = [value for value in made if value in visible]
        if len(seen) > 1:
            text = f"value {source} was processed to {seen}, and all are visible"
            yield Violation("processed twice", text)
    yield from _not_processed(facts, outputs, visible)
    yield from _reordered(facts, outputs, visible)


def _outputs(facts: Facts) -> dict[int, list[int]]:
    """Return the outputs of each input, committed or not."""
    made: dict[int, list[int]] = defaultdict(list)
    for value, sent in facts.sent.items():
        of = value_of(sent.invoke).get("of")
        if of:
            made[of[sent.place]].append(value)
    return made


def _committed_places(facts: Facts) -> dict[int, tuple[int, int]]:
    """Return key and offset of the values that readers of committed records saw."""
    return {
        value: (table["key"], offset)
        for _, table in facts.finished("poll")
        if table.get("committed")
        for offset, value in table["records"]
    }


def _not_processed(
    facts: Facts, outputs: dict[int, list[int]], visible: dict[int, tuple[int, int]]
) -> Iterator[Violation]:
    """Yield the visible inputs without a visible output; an input or its output may be lost."""
    done = {key for _, table in facts.finished("processed") for key in table["in"]}
    for value, (key, offset) in visible.items():
        made = outputs.get(value, [])
        if key not in done or any(each in visible for each in made):
            continue
        is_lost = facts.is_lost(key, offset, len(facts.events)) or offset < facts.trimmed[key]
        if not is_lost and not any(map(facts.may_be_gone, made)):
            text = f"value {value} at {offset} of key {key} has no visible output: {made}"
            yield Violation("not processed", text)


def _reordered(
    facts: Facts, outputs: dict[int, list[int]], visible: dict[int, tuple[int, int]]
) -> Iterator[Violation]:
    places: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for source, made in outputs.items():
        if source in visible:
            key, offset = visible[source]
            places[key] += [(visible[each][1], offset, each) for each in made if each in visible]
    for key, rows in places.items():
        last = -1
        for _, offset, value in sorted(rows):
            if offset < last:
                text = f"value {value} is made from {offset} of key {key}, after {last}"
                yield Violation("reordered output", text)
            last = offset
