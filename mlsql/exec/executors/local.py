"""The executor that runs shares in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing

from mlsql.errors import Interrupted
from mlsql.exec.pictures import PictureDecoder
from mlsql.exec.share import Event, Share
from mlsql.exec.worker import Worker, WorkerOptions


class LocalExecutor:
    """One worker here, and a decoding thread while a share runs. Shares are pulled one by one."""

    def __init__(
        self,
        options: WorkerOptions | None = None,
        open_decoder: Callable[[], PictureDecoder] | None = None,
    ) -> None:
        self._worker = Worker(options, open_decoder)
        self._cancelled = False

    def run(self, shares: Iterable[Share]) -> Iterator[tuple[int, Event]]:
        """The events of each share, with the share's ordinal."""
        self._cancelled = False
        try:
            for ordinal, share in enumerate(shares):
                with closing(self._worker.run(share)) as events:
                    for event in events:
                        yield ordinal, event
                        if self._cancelled:
                            raise Interrupted("the run was stopped")
        finally:
            self._worker.close_files()

    def cancel(self) -> None:
        """From any thread: end the run in progress, which then raises Interrupted."""
        self._cancelled = True
        self._worker.cancel()

    def close(self) -> None:
        """Give up the worker's models and files."""
        self._worker.close()


EXECUTOR = LocalExecutor
