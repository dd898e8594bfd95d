"""Segments: Parquet files of model outputs, each sorted by content and frame, never changed.

A segment is written under a temporary name and renamed, so that it is whole or absent. Its name
gives the layout's version and the number of rows; any other name in a folder is left alone.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mlsql.exec.keys import Places
from mlsql.exec.runs import Runs, read, runs_of, written

_NAME = re.compile(r"s1-(\d+)-[0-9a-f]{32}\.parquet")
_TEMPORARY = re.compile(r"s1-\d+-[0-9a-f]{32}\.parquet\.tmp")
_KEYS = ("high", "low", "frame")
_OUTPUT = "output"
_RUNS = b"mlsql runs"
_GROUP_BYTES = 2 << 20
_GROUP_ROWS = (256, 65_536)


@dataclass(frozen=True)
class Segment:
    """A segment as its folder lists it. `used` is when it last served, in seconds."""

    path: str
    rows: int
    size: int
    used: float


@dataclass(frozen=True)
class Rows:
    """Outputs with their keys, one a row: numpy arrays, and an Arrow array of the outputs."""

    high: np.ndarray
    low: np.ndarray
    frame: np.ndarray
    outputs: pa.Array

    def __len__(self) -> int:
        return len(self.high)

    def sorted(self) -> Rows:
        """The rows by content and frame, each key once."""
        order = np.lexsort((self.frame, self.low, self.high))
        high, low, frame = self.high[order], self.low[order], self.frame[order]
        new = np.ones(len(order), bool)
        new[1:] = ((high[1:] != high[:-1]) | (low[1:] != low[:-1]) | (frame[1:] != frame[:-1]))
        order = order[new]
        outputs = self.outputs
        if len(order) != len(outputs) or (np.diff(order) != 1).any():
            outputs = outputs.take(pa.array(order))
        return Rows(high[new], low[new], frame[new], outputs)


class Index:
    """Where in sorted rows each content and frame stands.

    It takes next to nothing where all runs are regular, else 4 to 8 bytes a row.
    """

    def __init__(self, runs: Runs, rows: int, frame: np.ndarray | None = None) -> None:
        self._high, self._low = runs.high, runs.low
        self._starts = np.append(runs.starts, rows)
        self._first, self._step = runs.first, runs.step
        self._frames: np.ndarray | None = None
        if not runs.regular:
            assert frame is not None
            small = len(frame) == 0 or int(frame.max()) < 2**31
            self._frames = frame.astype(np.int32 if small else np.int64)

    @property
    def nbytes(self) -> int:
        """The memory it takes."""
        parts = (self._high, self._low, self._starts, self._first, self._step)
        frames = 0 if self._frames is None else self._frames.nbytes
        return sum(part.nbytes for part in parts) + frames

    def find(self, places: Places, rows: np.ndarray) -> np.ndarray:
        """For each of these rows of `places` its position here, or -1."""
        found = np.full(len(rows), -1, np.int64)
        if not len(self._high):
            return found
        run = np.minimum(np.searchsorted(self._high, places.high), len(self._high) - 1)
        same = (self._high[run] == places.high) & (self._low[run] == places.low)
        content = places.content[rows]
        here = np.flatnonzero(content >= 0)
        here = here[same[content[here]]]
        if len(here):
            runs = run[content[here]]
            found[here] = self._position(runs, places.frame[rows[here]])
        return found

    def _position(self, runs: np.ndarray, frames: np.ndarray) -> np.ndarray:
        """The place of each frame in its content's run: counted, or by bisecting all at once."""
        first, stop = self._starts[runs], self._starts[runs + 1]
        if self._frames is None:
            place, rest = np.divmod(frames - self._first[runs], self._step[runs])
            inside = (rest == 0) & (place >= 0) & (place < stop - first)
            return np.where(inside, first + place, -1)
        end = stop - 1
        while (open_ := first < end).any():
            middle = (first + end) // 2
            after = self._frames[middle] < frames
            first = np.where(open_ & after, middle + 1, first)
            end = np.where(open_ & ~after, middle, end)
        return np.where(self._frames[first] == frames, first, -1)


def listed(folder: Path) -> list[Segment]:
    """The segments in a folder; none where there is no such folder."""
    found = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        for entry in entries:
            if name := _NAME.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    stat = entry.stat()
                    found.append(
                        Segment(entry.path, int(name[1]), stat.st_size, stat.st_mtime))
    return found


def leftovers(folder: Path) -> Iterator[tuple[str, float]]:
    """The temporary files in a folder with the times they were last written."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if _TEMPORARY.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    yield entry.path, entry.stat().st_mtime


def write_segment(folder: Path, rows: Rows) -> Segment:
    """Write the rows as one new segment; an OSError leaves nothing behind."""
    import pyarrow.parquet as pq

    rows = rows.sorted()
    columns = [pa.array(rows.high), pa.array(rows.low), pa.array(rows.frame), rows.outputs]
    table = pa.table(columns, names=[*_KEYS, _OUTPUT])
    runs = written(runs_of(rows.high, rows.low, rows.frame), len(rows))
    if runs is not None:
        table = table.replace_schema_metadata({_RUNS: runs})
    path = folder / f"s1-{len(rows)}-{uuid.uuid4().hex}.parquet"
    temporary = f"{path}.tmp"
    try:
        pq.write_table(table, temporary, compression="lz4", write_page_checksum=True,
                       row_group_size=_group_rows(rows), use_dictionary=_repetitive(rows))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    stat = os.stat(path)
    return Segment(str(path), len(rows), stat.st_size, stat.st_mtime)


def _repetitive(rows: Rows) -> list[str]:
    """The columns to write with a dictionary; numbers are larger and slower that way."""
    few = len(np.unique(rows.high)) * 4 < len(rows)
    return [*(("high", "low") if few else ()), *_text_columns(rows.outputs.type)]


@functools.lru_cache(maxsize=64)
def _text_columns(kind: pa.DataType) -> list[str]:
    """Parquet's names of the text columns that outputs of that type are spread over."""
    import pyarrow.parquet as pq

    empty = pa.BufferOutputStream()
    pq.write_table(pa.table([pa.array([], kind)], names=[_OUTPUT]), empty)
    schema: Any = pq.ParquetFile(pa.BufferReader(empty.getvalue())).schema
    columns = [schema.column(i) for i in range(len(schema.names))]
    return [column.path for column in columns if column.physical_type == "BYTE_ARRAY"]


def _group_rows(rows: Rows) -> int:
    least, most = _GROUP_ROWS
    wanted = _GROUP_BYTES * len(rows) // max(rows.outputs.nbytes, 1)
    return int(max(least, min(most, wanted)))


class SegmentFile:
    """An open segment. Reading raises OSError or pa.ArrowException where it is broken."""

    def __init__(self, path: str) -> None:
        import pyarrow.parquet as pq

        self._file: Any = pq.ParquetFile(
            path, page_checksum_verification=True, pre_buffer=False)
        metadata = self._file.metadata
        groups = range(metadata.num_row_groups)
        counts = [metadata.row_group(i).num_rows for i in groups]
        self.starts = np.cumsum([0, *counts])

    def index(self) -> Index:
        """The keys of all rows: from the footer, or where need be from the columns."""
        rows = self._file.metadata.num_rows
        text = (self._file.metadata.metadata or {}).get(_RUNS)
        if text is None:
            table = self._file.read(columns=list(_KEYS))
            high, low, frame = (table[name].to_numpy() for name in _KEYS)
            return Index(runs_of(high, low, frame), rows, frame)
        runs = read(text, rows)
        if runs.regular:
            return Index(runs, rows)
        return Index(runs, rows, self._file.read(columns=["frame"])["frame"].to_numpy())

    def outputs(self, group: int, kind: pa.DataType) -> pa.Array:
        """The outputs of one row group, of the Arrow type `kind`."""
        table = self._file.read_row_group(group, columns=[_OUTPUT])
        return as_type(table[_OUTPUT].combine_chunks(), kind)

    def rows(self, kind: pa.DataType) -> Rows:
        """Everything."""
        table = self._file.read()
        high, low, frame = (table[name].to_numpy() for name in _KEYS)
        return Rows(high, low, frame, as_type(table[_OUTPUT].combine_chunks(), kind))

    def close(self) -> None:
        """Close the file."""
        self._file.close(force=True)


def joined(parts: Sequence[Rows]) -> Rows:
    """The rows of all parts, of which there is at least one."""
    if len(parts) == 1:
        return parts[0]
    return Rows(
        np.concatenate([part.high for part in parts]),
        np.concatenate([part.low for part in parts]),
        np.concatenate([part.frame for part in parts]),
        pa.concat_arrays([part.outputs for part in parts]),
    )


def as_type(outputs: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same values in just that Arrow type, names of list items included."""
    if isinstance(outputs, pa.ChunkedArray):
        outputs = outputs.combine_chunks()
    if outputs.type.equals(kind, check_metadata=True):
        return outputs
    return outputs.cast(kind)


def storable(kind: pa.DataType) -> bool:
    """Whether Parquet gives outputs of that type back exactly."""
    if pa.types.is_union(kind) or pa.types.is_interval(kind):
        return False
    if isinstance(kind, pa.BaseExtensionType):
        return False
    fields = [kind.field(i) for i in range(kind.num_fields)]
    return all(storable(field.type) and not pa.types.is_dictionary(field.type)
               for field in fields)
