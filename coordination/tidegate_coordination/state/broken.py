"""The one error of the fold."""


class StateBroken(Exception):
    """An event contradicts the state: log and state no longer agree.

    Stop this gateway and show the text; going on would answer clients from a wrong state.
    """


def expect(holds: bool, text: str) -> None:
    """Assert what the fold relies on.

    Raises:
      StateBroken: it does not hold.
    """
    if not holds:
        raise StateBroken(text)
