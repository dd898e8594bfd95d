"""The worker: it holds loaded models and takes shares through them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mlsql.errors import InterfaceError, Interrupted, NotSupportedError, OperationalError
from mlsql.exec.ahead import Work
from mlsql.exec.allocator import keep_large_blocks, wait_passively
from mlsql.exec.cluster.pool import Pool
from mlsql.exec.conditions import Conditions
from mlsql.exec.device import resolved
from mlsql.exec.faults import fault
from mlsql.exec.inference import LoadedModel
from mlsql.exec.media.handle import Limits
from mlsql.exec.pictures import PictureDecoder
from mlsql.exec.portion import Portion
from mlsql.exec.prefetch import Prefetch
from mlsql.exec.share import Event, Share
from mlsql.exec.share_run import ShareRun
from mlsql.exec.tuning import WORTH_SECONDS, tuned
from mlsql.udfs.spec import ModelSpec


@dataclass(frozen=True)
class WorkerOptions:
    """How a worker works. `batch_size` 0 is the model's own, `decode_threads` 0 the decoder's.

    `memory_budget` bounds the bytes of pictures and prepared inputs that are held ahead. `pool` is
    for executors that have several workers.
    """

    device: str = "auto"
    batch_size: int = 0
    memory_budget: int = 256_000_000
    decode_threads: int = 0
    limits: Limits = field(default_factory=Limits)
    pool: Pool = field(default_factory=Pool)
    folder: str | None = None  # what was measured, and networks for other runtimes, are kept here


class Worker:
    """Runs shares, one at a time; each model is loaded once, files stay open between shares.

    `open_decoder` takes the place of the real decoder, in tests.
    """

    def __init__(
        self,
        options: WorkerOptions | None = None,
        open_decoder: Callable[[], PictureDecoder] | None = None,
    ) -> None:
        self.options = options or WorkerOptions()
        self.conditions = Conditions()
        self._open_decoder = open_decoder or self._real_decoder
        self._models: dict[tuple[object, ...], LoadedModel] = {}
        self._ahead: PictureDecoder | None = None
        self._behind: PictureDecoder | None = None
        self._prefetch: Prefetch | None = None
        self._cancelled = threading.Event()
        self._running = False

    def run(self, share: Share) -> Generator[Event, None, None]:
        """The events of a share, in the order of its rows.

        An input that cannot be used is a RowError of its rows; a model that cannot be loaded is an
        OperationalError. Closing the iterator ends all work and leaves the worker ready for more.
        """
        if self._running:
            raise InterfaceError("a worker runs one share at a time: close the run before this one")
        self._running = True
        self._cancelled.clear()
        try:
            options = self.options
            run = ShareRun(share, self, options.batch_size, options.memory_budget)
            yield from run.events()
        finally:
            self._running = False

    def cancel(self) -> None:
        """From any thread: end the run in progress, which then raises Interrupted."""
        self._cancelled.set()
        prefetch = self._prefetch
        if prefetch is not None:
            prefetch.cancel()

    def close(self) -> None:
        """Give up models, files and the condition database."""
        self.cancel()
        self.close_files()
        self._models.clear()
        self.conditions.close()

    def close_files(self) -> None:
        """Close what the decoders hold open: between statements a file may change."""
        for decoder in (self._ahead, self._behind):
            if decoder is not None:
                decoder.close()
        self._ahead = self._behind = None

    def model(self, spec: ModelSpec) -> LoadedModel:
        """The model of that spec, loaded at its first use."""
        # Two functions registered under one name one after the other have equal fingerprints.
        loader = spec.loader if isinstance(spec.loader, str) else id(spec.loader)
        key = (spec.fingerprint, spec.name, loader)
        if key not in self._models:
            self._models[key] = self._load(spec)
        model = self._models[key]
        tuning = model.tuning
        if tuning is not None and tuning.open and model.seconds_in_all > WORTH_SECONDS:
            tuning.measure(self.check)
        own = spec.batch_size if tuning is None else tuning.batch
        model.batch_size = self.options.batch_size or own
        return model

    def runtimes(self) -> dict[str, str]:
        """How the networks of the loaded models are run, and why, by the models' names."""
        tuned = [model for model in self._models.values() if model.tuning is not None]
        return {model.spec.name: str(model.tuning.choice) for model in tuned if model.tuning}

    def decoder(self) -> PictureDecoder:
        """The decoder of the models' own thread; the thread ahead has another."""
        if self._behind is None:
            self._behind = self._open_decoder()
        return self._behind

    def prefetch(
        self, work: Iterable[Work], models: Sequence[LoadedModel | None]
    ) -> Generator[Portion, None, None]:
        """The portions of the work, made ready in a thread that ends with the iterator."""
        decoder = None
        if any(model is not None and model.spec.takes_media for model in models):
            decoder = self._ahead = self._ahead or self._open_decoder()
        self._prefetch = prefetch = Prefetch(work, models, decoder, self.options.memory_budget)
        try:
            yield from prefetch
        finally:
            self._prefetch = None
            if not prefetch.stop():
                self._ahead = None  # stuck in it; the thread closes it when it gets out

    def check(self) -> None:
        """Raise Interrupted if the run was cancelled."""
        if self._cancelled.is_set():
            raise Interrupted("the run was stopped")

    def _load(self, spec: ModelSpec) -> LoadedModel:
        wait_passively()
        device = resolved(self.options.device)
        folder = Path(self.options.folder) if self.options.folder else None
        try:
            loaded = LoadedModel(spec, spec.load(device))
            loaded.tuning = tuned(spec, loaded.model, device, folder)
        except NotSupportedError:
            raise
        except Exception as error:
            reason = fault(error).message
            raise OperationalError(f"model {spec.name!r} cannot be loaded: {reason}") from error
        if "torch" in sys.modules:
            keep_large_blocks()
        return loaded

    def _real_decoder(self) -> PictureDecoder:
        from mlsql.exec.media.decode import Decoder

        decoder: PictureDecoder = Decoder(
            self.options.limits, threads=self.options.decode_threads
        )
        return decoder
