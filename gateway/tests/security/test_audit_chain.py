"""The chain of an audit log."""

from __future__ import annotations

from random import Random

from tidegate_gateway.security.audit_chain import BEGIN, Chain, continued, verify


def some_lines(count: int = 50) -> list[bytes]:
    """Return some lines of a chain."""
    chain = Chain()
    return [chain.line({"event": "denied", "principal": f"User:{each}"}) for each in range(count)]


def test_a_whole_chain_has_no_breaks() -> None:
    verdict = verify(some_lines())
    assert (verdict.first, verdict.last, verdict.broken) == (1, 50, ())
    assert verify([]) == (0, 0, BEGIN, ())


def test_a_chain_may_begin_in_an_older_file() -> None:
    verdict = verify(some_lines()[20:])
    assert (verdict.first, verdict.last, verdict.broken) == (21, 50, ())


def test_a_chain_goes_on_after_a_restart() -> None:
    lines = some_lines(3)
    again = continued(lines[-1])
    assert verify([*lines, again.line({"event": "started"})]).broken == ()


def test_every_edit_is_found() -> None:
    lines = some_lines()
    rng = Random(7)
    for _ in range(1000):
        edited = list(lines)
        at = rng.randrange(1, len(edited) - 1)
        match rng.randrange(5):
            case 0:
                del edited[at]
            case 1:
                edited[at], edited[at + 1] = edited[at + 1], edited[at]
            case 2:
                edited.insert(at, edited[rng.randrange(len(edited))])
            case 3:
                edited[at] = edited[at].replace(b"User:", b"User;")
            case _:
                place = rng.randrange(len(edited[at]) - 1)
                line = bytearray(edited[at])
                line[place] ^= 1 << rng.randrange(7)
                edited[at] = bytes(line)
        assert verify(edited).broken, edited[at]


def test_a_line_with_the_same_content_in_other_words_is_found() -> None:
    lines = some_lines()
    for edited in (
        lines[9].replace(b'"principal":', b'"principal":"User:bob","principal":'),
        lines[9].replace(b",", b", ", 1),
        lines[9].replace(b"User", b"\\u0055ser"),
    ):
        assert verify([*lines[:9], edited, *lines[10:]]).broken


def test_a_line_that_was_made_anew_with_its_hash_breaks_the_next() -> None:
    lines = some_lines()
    forger = continued(lines[9])
    lines[10] = forger.line({"event": "nothing happened"})
    assert [each.line for each in verify(lines).broken] == [12]
