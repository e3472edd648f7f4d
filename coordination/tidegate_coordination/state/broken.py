"""The errors of the fold, and of the trial before it."""


class StateBroken(Exception):
    """An event contradicts the state: log and state no longer agree.

    Stop this gateway and show the text; going on would answer clients from a wrong state.
    """


class NumbersRunOut(StateBroken):
    """A number that only rises has reached its end; the state is not broken.

    Refuse requests that need one more, with the text; all others continue.
    """


def expect_left(are_left: bool, text: str) -> None:
    """Assert that there are numbers left.

    Raises:
      NumbersRunOut: there are none.
    """
    if not are_left:
        raise NumbersRunOut(text)


def expect(holds: bool, text: str) -> None:
    """Assert what the fold relies on.

    Raises:
      StateBroken: it does not hold.
    """
    if not holds:
        raise StateBroken(text)
