"""Model outputs kept on disk: what was computed once, on this content, is not computed again."""

from __future__ import annotations

import os
import threading
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mlsql.errors import InternalError, Warning
from mlsql.exec import upkeep
from mlsql.exec.fingerprint import Check, ContentFingerprints
from mlsql.exec.keys import Keys, Places, is_media, media_keys, value_keys
from mlsql.exec.pending import Pending
from mlsql.exec.segments import Rows, Segment, as_type, storable, write_segment
from mlsql.exec.stored import FAILURES, Found, StoredOutputs, first_line
from mlsql.udfs.types import arrow_type

if TYPE_CHECKING:
    from mlsql.udfs.spec import ModelSpec

_FLUSH_SECONDS = 2.0
_FLUSH_BYTES = 16 << 20
_MEMORY_BYTES = 64 << 20  # of one model, where the folder cannot be written
_RETRY_SECONDS = 60.0


class OutputCache:
    """The outputs of deterministic models, by model fingerprint, content and frame.

    Everything lies in `folder` and is shared with other processes; `limit_bytes` bounds it, and
    what was unused for longest is evicted. A folder that cannot be read or written is one Warning
    and never an error: outputs are then kept in memory, within bounds.
    """

    def __init__(self, folder: Path, limit_bytes: int | None = None) -> None:
        self._folder = folder
        self._outputs = folder / "outputs"
        self._limit = limit_bytes
        self._files = ContentFingerprints(folder)
        self._stored = StoredOutputs(self._warn)
        self._pending: dict[str, Pending] = {}
        self._written: set[str] = set()  # by this query: not evicted before its end
        self._bytes: int | None = None
        self._full = False
        self._retry_at = 0.0
        self._said: set[str] = set()
        self._lock = threading.RLock()

    def keys(self, arguments: pa.Array, check: Check | None = None) -> Keys:
        """The keys of distinct arguments: structs of uri, frame and data, or SQL values.

        Take them once, before anything is decoded: `write` keeps nothing of a file that has
        changed since. `check` is called now and then while files are read, and may raise.
        """
        if isinstance(arguments, pa.ChunkedArray):
            arguments = arguments.combine_chunks()
        if is_media(arguments.type):
            return media_keys(arguments, self._files, check)
        return value_keys(arguments, self._files)

    def lookup(self, spec: ModelSpec, keys: Keys) -> tuple[pa.Array, pa.Array]:
        """For each key whether its output is known, and the outputs, NULL where it is not."""
        return self._found(spec, keys).result()

    def known(self, spec: ModelSpec, keys: Keys) -> tuple[np.ndarray, pa.ChunkedArray]:
        """The positions of the keys whose output is known, and these outputs, in one order.

        It is the order in which they are stored: to put large outputs into another copies them.
        """
        return self._found(spec, keys).as_stored()

    def _found(self, spec: ModelSpec, keys: Keys) -> Found:
        kind = arrow_type(spec.output_type)
        found = Found(len(keys), kind)
        folder = self._outputs / spec.fingerprint
        pending = self._pending.get(spec.fingerprint)
        kept = spec.deterministic and storable(kind) and len(keys)
        if kept and (pending or os.path.isdir(folder)):
            places = keys.places
            with self._lock:
                if pending:
                    self._search_pending(pending, places, found)
                self._stored.search(folder, places, found)
        return found

    def write(self, spec: ModelSpec, keys: Keys, outputs: pa.Array) -> None:
        """Keep the outputs of these keys, one each; a NULL is no answer and is not kept.

        They are on disk within two seconds of further writes, or at `flush`.
        """
        if len(keys) != len(outputs):
            raise InternalError(f"{len(outputs)} outputs of {spec.name} for {len(keys)} keys")
        kind = arrow_type(spec.output_type)
        if not spec.deterministic or not len(keys):
            return
        if not storable(kind):
            self._warn(spec.fingerprint, f"outputs of {spec.name} are not kept: its type "
                       f"{spec.output_type} cannot be stored exactly")
            return
        rows = _to_keep(keys, as_type(outputs, kind))
        if rows is not None:
            with self._lock:
                self._add(spec, rows)

    def flush(self) -> None:
        """Write what is in memory; call it at the end of a query, which this is taken for."""
        with self._lock:
            for pending in self._pending.values():
                self._flush(pending)
            self._written.clear()
            if self._full:
                self._evict()
            self._full = False
            self._bytes = None  # other processes write too: count anew

    def close(self) -> None:
        """Flush, and close all files."""
        with self._lock:
            self._retry_at = 0.0
            self.flush()
            self._stored.close()
            self._files.close()

    def entries(self) -> pa.Table:
        """One row a model: model, fingerprint, task, output_type, rows, bytes, last_used."""
        from mlsql.exec.contents import entries

        self.flush()
        return entries(self._outputs)

    def clear(self, model: str | None = None) -> int:
        """Forget a model, given by name or fingerprint, or all; returns the bytes freed."""
        from mlsql.exec.contents import clear

        with self._lock:
            self._pending = {
                fingerprint: pending for fingerprint, pending in self._pending.items()
                if model not in (None, fingerprint, pending.spec.name)
            }
            freed, removed = clear(self._outputs, model)
            self._stored.forget(removed)
            self._bytes = None
            return freed

    def _search_pending(self, pending: Pending, places: Places, found: Found) -> None:
        rows = found.missing(places)
        positions = pending.find(places, rows)
        hits = np.flatnonzero(positions >= 0)
        if len(hits):
            found.add(rows[hits], pending.outputs(positions[hits]))

    def _add(self, spec: ModelSpec, rows: Rows) -> None:
        if self._full:
            return
        pending = self._pending.get(spec.fingerprint)
        if pending is None:
            pending = self._pending[spec.fingerprint] = Pending(spec)
        pending.add(rows)
        overdue = time.monotonic() - pending.flushed_at > _FLUSH_SECONDS
        if overdue or pending.nbytes > _FLUSH_BYTES:
            self._flush(pending)

    def _flush(self, pending: Pending) -> None:
        if not pending:
            return
        if time.monotonic() < self._retry_at:
            pending.shrink(_MEMORY_BYTES)
            return
        try:
            segment = self._write(pending)
        except FAILURES as error:
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            self._warn("write", f"the cache {self._folder} cannot be written, outputs are kept in "
                       f"memory only: {first_line(error)}")
            pending.shrink(_MEMORY_BYTES)
            return
        pending.clear()
        self._written.add(segment.path)
        folder = self._outputs / pending.spec.fingerprint
        removed, merged = self._stored.merge(folder, arrow_type(pending.spec.output_type))
        if removed & self._written:
            self._written = self._written - removed | merged
        self._bound(segment.size)

    def _write(self, pending: Pending) -> Segment:
        from mlsql.exec.contents import describe

        folder = self._outputs / pending.spec.fingerprint
        rows = pending.rows()
        for last in (False, True):
            try:
                describe(folder, pending.spec)
                if pending.flushed_at < 0:  # once a model and process
                    upkeep.sweep(folder)
                return write_segment(folder, rows)
            except FileNotFoundError:  # another process has just cleared the folder
                if last:
                    raise
        raise AssertionError("unreachable")

    def _bound(self, added: int) -> None:
        """Evict when the limit is passed; stop writing when all there is is this query's own."""
        if self._limit is None:
            return
        if self._bytes is not None:
            self._bytes += added
            if self._bytes <= self._limit:
                return
        self._bytes = self._evict()
        if self._bytes > self._limit:
            self._full = True
            self._warn("full", f"the cache's limit of {self._limit:,} bytes is less than this "
                       "query computes: the rest is not kept")

    def _evict(self) -> int:
        """Remove what was unused for longest, as far as the limit asks; returns the bytes left."""
        assert self._limit is not None
        left, removed = upkeep.evict(self._outputs, self._limit, self._written)
        self._stored.forget(removed)
        return left

    def _warn(self, subject: str, message: str) -> None:
        if subject not in self._said:
            self._said.add(subject)
            warnings.warn(message, Warning, stacklevel=3)


def _to_keep(keys: Keys, outputs: pa.Array) -> Rows | None:
    """The answers that have a key and whose file has not changed since; None if there are none."""
    places = keys.places
    valid = outputs.is_valid().to_numpy(zero_copy_only=False)
    kept = np.flatnonzero(valid & (places.content >= 0) & keys.unchanged())
    if not len(kept):
        return None
    if len(kept) < len(outputs):
        outputs = outputs.take(pa.array(kept))
    return Rows(*places.take(kept), outputs)
