"""The file under an open SQLite log: is it still the one at its path?

SQLite goes on writing to a file that was deleted or replaced, and every entry it acknowledges then
is lost.  So the path is looked at after each statement, before its answer counts.
"""

import os
from pathlib import Path

from tidegate_coordination.log.metadata_log import LogCorrupt, LogUnavailable


class OpenedFile:
    """A file, known again by its device and number."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._identity = self._look()

    def check(self) -> None:
        """See that the file is there.

        Raises:
            LogCorrupt: it was deleted or replaced.
            LogUnavailable: nobody can tell now.
        """
        if self._look() != self._identity:
            raise LogCorrupt(
                f"its file {self._path} was replaced while it was open. If that was a restore,"
                " start again; what was not answered since is not in the new file"
            )

    def _look(self) -> tuple[int, int]:
        try:
            found = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            raise LogCorrupt(
                f"its file {self._path} was deleted while it was open. Nothing is written any more;"
                " restore it with `tidegate log restore`"
            ) from None
        except OSError as error:
            raise LogUnavailable(f"{self._path} cannot be looked at: {error.strerror}") from error
        return found.st_dev, found.st_ino
