"""What the statements of a session share: models, measurements, the cache, a loaded executor."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsql.config import Settings
from mlsql.exec.macros import Macros
from mlsql.exec.measured import Measurements
from mlsql.exec.model_catalog import ModelCatalog
from mlsql.exec.progress import Listener, Progress
from mlsql.exec.sources import Sources, TableFunction
from mlsql.exec.views import Views
from mlsql.udfs.registry import Registry

if TYPE_CHECKING:
    import duckdb

    from mlsql.exec.cache import OutputCache
    from mlsql.exec.cluster.pool import Pool
    from mlsql.exec.context import EngineContext
    from mlsql.exec.limits import Guardrails
    from mlsql.exec.share import Executor


class Resources:
    """Made when first needed, kept until closed, made anew when a setting they hang on changes."""

    table_functions: Mapping[str, TableFunction]

    def __init__(self, connection: duckdb.DuckDBPyConnection, settings: Settings) -> None:
        self.connection = connection
        self.settings = settings
        self.models = ModelCatalog(connection, self.limits)
        self.registry = Registry(self.models.specs)
        self._measured: tuple[Any, Measurements] | None = None
        self.views = Views(connection)
        self.macros = Macros(connection)
        self.rules_off: frozenset[str] = frozenset()
        self.guardrails: Guardrails | None = None  # of the statement that runs
        self.leaves_open = False  # what it writes is to wait for a commit
        self.left_open = False  # it began a transaction, which waits
        self.listeners: list[Listener] = []  # to its progress
        self.progress = Progress()
        self._numbers = itertools.count()
        self._executor: tuple[Any, Executor] | None = None
        self._cache: tuple[tuple[str, int], OutputCache] | None = None

    def next_number(self) -> int:
        """A number no statement has had: it tells their tables apart."""
        return next(self._numbers)

    def context(self) -> EngineContext:
        """The world as planning sees it."""
        from mlsql.exec.context import EngineContext

        return EngineContext(self.connection, self.registry, self.measured, self.views,
                             self.rules_off, self.settings.text("precision"))

    @property
    def measured(self) -> Measurements:
        """What past runs have shown, kept beside the cache unless that is switched off."""
        from mlsql.exec.device import resolved

        folder = Path(self.settings.text("cache_dir")) if self.settings.flag("cache") else None
        wanted = (folder, self.settings.text("device"))
        if self._measured is None or self._measured[0] != wanted:
            if self._measured is not None:
                self._measured[1].save(now=True)
            self._measured = (wanted, Measurements(folder, resolved(wanted[1])))
        return self._measured[1]

    def sources(self) -> Sources:
        """What puts tables in the place of media sources, for one statement."""
        return Sources(self.connection, self.limits, self.listings(),
                       self.settings.text("on_error"), self.table_functions,
                       f"mlsql_{self.next_number()}")

    def listings(self) -> Path | None:
        """Where listings of videos are kept; None where the cache is off."""
        folder = Path(self.settings.text("cache_dir"))
        return folder / "listings" if self.settings.flag("cache") else None

    def limits(self) -> Any:
        """What media may be read: as much as DuckDB itself may read, and no larger pictures."""
        from mlsql.exec.media.handle import Limits

        external, directories = self.connection.execute(
            "SELECT current_setting('enable_external_access'), "
            "current_setting('allowed_directories')").fetchall()[0]
        return Limits(self.settings.integer("max_pixels"), bool(external),
                      tuple(directories or ()))

    def executor(self) -> Executor:
        """The executor of the settings, its models loaded from earlier statements."""
        from mlsql.exec.executors import executor
        from mlsql.exec.worker import WorkerOptions

        s = self.settings
        options = WorkerOptions(s.text("device"), s.integer("batch_size"),
                                s.integer("memory_budget"), s.integer("workers"), self.limits(),
                                self._pool(), self._folder())
        wanted = (s.text("executor"), options)
        if self._executor is None or self._executor[0] != wanted:
            before = self._executor
            self._executor = (wanted, executor(s.text("executor"), options))
            if before is not None:  # closed last: what both need is kept
                before[1].close()
        return self._executor[1]

    def _folder(self) -> str | None:
        """Where what was found out about this machine is kept; None where the cache is off."""
        return self.settings.text("cache_dir") if self.settings.flag("cache") else None

    def _pool(self) -> Pool:
        from mlsql.exec.cluster.pool import Pool

        s = self.settings
        address = s.text("ray_address")
        return Pool(s.integer("min_workers"), s.integer("workers"),
                    "" if address == "local" else address, s.number("gpus_per_worker"))

    def cache(self) -> OutputCache | None:
        """The cache of outputs; None where the settings switch it off."""
        from mlsql.exec.cache import OutputCache

        if not self.settings.flag("cache"):
            return None
        folder, limit = self.settings.text("cache_dir"), self.settings.integer("cache_limit")
        if self._cache is None or self._cache[0] != (folder, limit):
            if self._cache is not None:
                self._cache[1].close()
            self._cache = ((folder, limit), OutputCache(Path(folder), limit or None))
        return self._cache[1]

    def interrupt(self) -> None:
        """From any thread: end the statement that runs."""
        guardrails = self.guardrails
        if guardrails is not None:
            guardrails.stop()
        self.stop_now()

    def stop_now(self) -> None:
        """From any thread: end what DuckDB and the models are doing."""
        self.connection.interrupt()
        if self._executor is not None:
            self._executor[1].cancel()

    def close(self) -> None:
        """Give up models, files and threads; what was computed is on disk."""
        if self._executor is not None:
            self._executor[1].close()
        if self._cache is not None:
            self._cache[1].close()
        if self._measured is not None:
            self._measured[1].save(now=True)
        self._executor = self._cache = None
