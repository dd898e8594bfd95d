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
        self._cancelled = self._enough = False

    @property
    def width(self) -> int:
        """One: a batch after the other."""
        return 1

    def run(self, shares: Iterable[Share]) -> Iterator[tuple[int, Event]]:
        """The events of each share, with the share's ordinal."""
        self._cancelled = self._enough = False
        try:
            for ordinal, share in enumerate(shares):
                with closing(self._worker.run(share)) as events:
                    for event in events:
                        yield ordinal, event
                        if self._cancelled:
                            raise Interrupted("the run was stopped")
                        if self._enough:
                            return
        finally:
            self._worker.close_files()

    def enough(self) -> None:
        """Between two events: no further row is wanted; nothing is computed ahead of them here."""
        self._enough = True

    def runtimes(self) -> dict[str, str]:
        """How the networks of the loaded models are run, and why, by the models' names."""
        return self._worker.runtimes()

    def cancel(self) -> None:
        """From any thread: end the run in progress, which then raises Interrupted."""
        self._cancelled = True
        self._worker.cancel()

    def close(self) -> None:
        """Give up the worker's models and files."""
        self._worker.close()


EXECUTOR = LocalExecutor
