"""The tables behind FROM 'a.mp4', read_video and read_images: handles, times and sizes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlsql.errors import MediaError
from mlsql.exec.media.handle import Limits
from mlsql.exec.media.images import header_of_file
from mlsql.exec.media.paths import expand
from mlsql.exec.media.sampling import Sampling, chosen
from mlsql.exec.media.video import VideoListing, list_video
from mlsql.exec.share import RowError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class SourceTable:
    """A source's rows, and the files that could not be listed (`row` is -1 where none is left)."""

    table: pa.Table
    errors: tuple[RowError, ...] = ()


def video_table(
    paths: str | Sequence[str], limits: Limits, *, fps: float | None = None,
    every: float | None = None, stride: int | None = None, keyframes: bool = False,
    start: float | None = None, end: float | None = None, memo: Path | None = None,
    on_error: str = "raise", base: str | None = None,
) -> SourceTable:
    """One row a picture: path, frame_id, ts, pts, keyframe, width, height, frame.

    The options are Sampling's; frame_id and ts are those of the whole video. A file that cannot
    be listed is a MediaError, or, among several and unless on_error is 'raise', an entry in errors.
    """
    sampling = Sampling(fps, every, stride, keyframes, start, end)
    files = expand(paths, limits, base)
    found: list[tuple[str, VideoListing]] = []
    errors: list[RowError] = []
    for path in files:
        try:
            found.append((path, list_video(path, limits, memo)))
        except (MediaError, OSError) as error:
            if on_error == "raise" or len(files) == 1:
                raise _as_media(error, path) from error
            errors.append(_row_error(-1, path, error))
    return SourceTable(_video_rows(found, sampling), tuple(errors))


def image_table(
    paths: str | Sequence[str], limits: Limits, *, on_error: str = "raise",
    base: str | None = None,
) -> SourceTable:
    """One row a file: path, image, width, height, format, bytes, mtime; no pixel is decoded.

    A file that cannot be listed is a MediaError, or, among several and unless on_error is 'raise',
    an entry in errors and a row without width, height and format.
    """
    files = expand(paths, limits, base)
    rows: list[tuple[int | None, int | None, str | None, int | None, int | None]] = []
    errors: list[RowError] = []
    for row, path in enumerate(files):
        width = height = kind = None
        try:
            header = header_of_file(path, limits)
            (width, height), kind = header.upright, header.format
        except (MediaError, OSError) as error:
            if on_error == "raise" or len(files) == 1:
                raise _as_media(error, path) from error
            errors.append(_row_error(row, path, error))
        rows.append((width, height, kind, *_status(path)))
    return SourceTable(_image_rows(files, rows), tuple(errors))


def _status(path: str) -> tuple[int | None, int | None]:
    try:
        found = os.stat(path)
    except OSError:
        return None, None
    return found.st_size, found.st_mtime_ns // 1000


def _as_media(error: Exception, path: str) -> MediaError:
    if isinstance(error, MediaError):
        return error
    return MediaError(f"{path}: {getattr(error, 'strerror', None) or error}", path)


def _row_error(row: int, path: str, error: Exception) -> RowError:
    return RowError(row, 0, None, str(_as_media(error, path)), uri=path, cause=error)


def _video_rows(found: Sequence[tuple[str, VideoListing]], sampling: Sampling) -> pa.Table:
    import numpy as np
    import pyarrow as pa

    from mlsql.exec.arrow import column, repeated_texts

    taken = [chosen(listing, sampling) for _, listing in found]
    counts = [len(ids) for ids in taken]

    def joined(parts: Iterable[np.ndarray[Any, Any]], kind: Any) -> pa.Array:
        return column(np.concatenate([np.empty(0, kind), *parts]).astype(kind, copy=False))

    def each(name: str, kind: Any) -> pa.Array:
        values = (getattr(listing, name) for _, listing in found)
        return joined((v[ids] for v, ids in zip(values, taken, strict=True)), kind)

    def repeated(name: str) -> pa.Array:
        sizes = np.array([getattr(listing, name) for _, listing in found], np.int32)
        return column(np.repeat(sizes, counts))

    paths = [path for path, _ in found]
    path = repeated_texts(paths, counts)
    # A handle outlives the statement, in tables: it holds wherever that is opened from.
    absolute = [os.path.abspath(p) for p in paths]
    uri = path if absolute == paths else repeated_texts(absolute, counts)
    number = joined(taken, np.int64)
    return pa.table({
        "path": path, "frame_id": number, "ts": each("ts", np.float64),
        "pts": each("pts", np.int64), "keyframe": each("keyframe", np.bool_),
        "width": repeated("width"), "height": repeated("height"),
        "frame": _handles(uri, number),
    })


def _image_rows(files: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    import pyarrow as pa

    path = pa.array(files, pa.string())
    uri = pa.array([os.path.abspath(f) for f in files], pa.string())
    width, height, kind, size, mtime = zip(*rows, strict=True) if rows else ((),) * 5
    return pa.table({
        "path": path, "image": _handles(uri, pa.nulls(len(files), pa.int64())),
        "width": pa.array(width, pa.int32()), "height": pa.array(height, pa.int32()),
        "format": pa.array(kind, pa.string()), "bytes": pa.array(size, pa.int64()),
        "mtime": pa.array(mtime, pa.timestamp("us")),
    })


def _handles(uri: pa.Array, frame: pa.Array) -> pa.Array:
    import pyarrow as pa

    return pa.StructArray.from_arrays(
        [uri, frame, pa.nulls(len(uri), pa.binary())], ["uri", "frame", "data"])
