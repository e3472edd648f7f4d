"""The errors of the fold, and of the trial before it."""


class StateBroken(Exception):
    """An event contradicts the state: log and state no longer agree.

    Stop this gateway and show the text. Otherwise it would answer clients from a wrong state.
    """


class NumbersRunOut(StateBroken):
    """A number that only rises has reached its end; the state is not broken.

    Refuse requests that need one more, with the text; all others continue.
    """


def expect_left(are_left: bool, text: str) -> None:
    """Assert that numbers are left.  Raises: NumbersRunOut: none is left."""
    if not are_left:
        raise NumbersRunOut(text)


def expect(holds: bool, text: str) -> None:
    """Assert a condition of the fold.  Raises: StateBroken: it does not hold."""
    if not holds:
        raise StateBroken(text)
