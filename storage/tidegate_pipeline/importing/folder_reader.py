"""Reads units from folders of brokers' logs, which every executor must have at the same paths."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import trio

from .log_folders import Place
from .readers import Portion, Reader, SourceFailed
from .segment_files import portion_of
from .work import ImportUnit

PORTION_BYTES: Final = 8 << 20


@dataclass(frozen=True)
class FolderOrigin:
    """See Origin.  folders: the path of each partition's folder."""

    folders: Mapping[Place, Path]

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Reader, None]:
        """See Origin."""
        yield FolderReader(self.folders)


class FolderReader:
    """See Reader."""

    def __init__(self, folders: Mapping[Place, Path]) -> None:
        self._folders = folders

    async def read(self, unit: ImportUnit, position: int, epoch: int) -> Portion:
        """See Reader."""
        folder = self._folders[unit.topic, unit.partition]
        read = partial(portion_of, folder, position, PORTION_BYTES)
        try:
            return Portion(memoryview(await trio.to_thread.run_sync(read)))
        except OSError as error:
            raise SourceFailed(f"{folder} cannot be read ({error.strerror or error})") from error
