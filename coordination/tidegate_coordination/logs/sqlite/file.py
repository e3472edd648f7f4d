"""Checks that the file of an open SQLite log is still the one at its path.

SQLite continues to write to a file that was deleted or replaced, and every entry that it then
acknowledges is lost.  So the path is checked after each statement, before its answer counts.
"""

import os
from pathlib import Path

from tidegate_coordination.log.metadata_log import LogCorrupt, LogUnavailable


class OpenedFile:
    """A file, identified by device and inode."""

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._identity = self._look()

    def check(self) -> None:
        """Check that the file is still at its path.

        Raises:
            LogCorrupt: the file was deleted or replaced.
            LogUnavailable: the path cannot be checked now.
        """
        if self._look() != self._identity:
            raise LogCorrupt(
                f"its file {self._path} was replaced while it was open. If that was a restore,"
                " start again; entries without an answer since are not in the new file"
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
            raise LogUnavailable(f"{self._path} cannot be checked: {error.strerror}") from error
        return found.st_dev, found.st_ino
