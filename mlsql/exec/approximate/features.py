"""Features of pictures that cost next to nothing: grey thumbnails, and what moved in them."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mlsql.errors import MediaError
from mlsql.exec.media.handle import Handle, Limits

if TYPE_CHECKING:
    from mlsql.exec.cache import OutputCache

Thumbs = NDArray[np.uint8]

SIDE = 24
_VERSION = "grey24-1"
_BACKGROUND = 64  # pictures of a file that its background is the median of


def features_of(
    values: pa.StructArray, limits: Limits, cache: OutputCache | None,
    check: Callable[[], None], listings: Path | None,
) -> NDArray[np.float32]:
    """One row a picture: the thumbnail, and |thumbnail − background of its file|; standardised.

    A file's pictures are decoded through, once: its thumbnails are kept in the cache. NULLs and
    pictures that cannot be read are as the mean.
    """
    files = values.field("uri").dictionary_encode()
    uris, which = files.dictionary.to_pylist(), np.asarray(files.indices.fill_null(-1))
    frames = np.asarray(values.field("frame").fill_null(-1))
    out = np.full((len(values), 2 * SIDE * SIDE), np.nan, np.float32)
    for number, uri in enumerate(uris):
        check()
        rows = np.flatnonzero(which == number)
        thumbs = _thumbs(uri, frames[rows], limits, cache, listings)
        known = (frames[rows] < len(thumbs)) & (frames[rows] >= 0)
        own = thumbs[np.clip(frames[rows], 0, len(thumbs) - 1)].astype(np.float32)
        step = max(1, len(thumbs) // _BACKGROUND)
        background = np.median(thumbs[::step], axis=0)
        out[rows[known], :SIDE * SIDE] = own[known]
        out[rows[known], SIDE * SIDE:] = np.abs(own[known] - background)
    return _standardised(out)


def is_constant(columns: NDArray[np.float32]) -> bool:
    """Whether features tell no picture from another."""
    return not len(columns) or float(np.abs(columns - columns[0]).max()) < 1e-6


def _standardised(columns: NDArray[np.float32]) -> NDArray[np.float32]:
    """The two halves scaled each by one number, so that bright corners stay what they are."""
    found = []
    for half in np.split(columns, 2, axis=1):
        missing = np.isnan(half[:, 0])
        if missing.all():
            found.append(np.zeros_like(half))
            continue
        half = half - half[~missing].mean(axis=0)
        half /= max(float(half[~missing].std()), 1e-6) * SIDE
        half[missing] = 0.0
        found.append(half)
    return np.concatenate(found, axis=1)


def _thumbs(
    uri: str, frames: NDArray[np.int64], limits: Limits, cache: OutputCache | None,
    listings: Path | None,
) -> Thumbs:
    path = _kept(uri, cache, listings)
    if path is not None:
        try:
            kept = np.load(path, allow_pickle=False)
            if kept.ndim == 2 and kept.shape[1] == SIDE * SIDE and kept.dtype == np.uint8:
                os.utime(path)
                return np.asarray(kept)
        except (OSError, ValueError, EOFError):
            pass
    made = _made(uri, limits, listings)
    if path is not None:
        _keep(path, made)
    return made


def _kept(uri: str, cache: OutputCache | None, listings: Path | None) -> Path | None:
    """Where the thumbnails of a file lie: under its content, not its name."""
    if cache is None or listings is None:
        return None
    kind = pa.struct([("uri", pa.string()), ("frame", pa.int64()), ("data", pa.binary())])
    keys = cache.keys(pa.array([{"uri": uri, "frame": 0, "data": None}], kind))
    places = keys.places
    if places.content[0] < 0:
        return None
    name = f"{int(places.high[0]):016x}{int(places.low[0]):016x}-{_VERSION}.npy"
    return listings.parent / "features" / name


def _keep(path: Path, thumbs: Thumbs) -> None:
    beside = path.with_name(f"{path.stem}-{uuid.uuid4().hex}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(beside, "wb") as file:
            np.save(file, thumbs, allow_pickle=False)
        os.replace(beside, path)
    except OSError:
        return


def _made(uri: str, limits: Limits, listings: Path | None) -> Thumbs:
    """The thumbnail of every picture of a file, in order, flattened."""
    from mlsql.exec.media.video import list_video

    listing = list_video(uri, limits, listings)
    quick = None if listing.exotic or not listing.by_pts else _quick(uri, limits, listing)
    return _careful(uri, limits, len(listing)) if quick is None else quick


def _quick(uri: str, limits: Limits, listing: Any) -> Thumbs | None:
    """From the decoder's own brightness plane, no colours made; None where anything is odd."""
    import cv2

    from mlsql.exec.media.opening import open_video
    from mlsql.exec.media.scan import pictures

    local = limits.check(uri)
    source = open_video(local, limits, uri, exotic=False, threads=0)
    found = np.zeros((len(listing), SIDE * SIDE), np.uint8)
    filled = np.zeros(len(listing), bool)
    try:
        for frame in pictures(source):
            at = int(np.searchsorted(listing.pts, frame.pts if frame.pts is not None else -1))
            if at >= len(listing) or listing.pts[at] != frame.pts:
                continue
            plane = frame.planes[0]
            if plane.line_size < frame.width or frame.format.name[:3] != "yuv":
                return None
            grey = np.frombuffer(memoryview(plane), np.uint8).reshape(plane.height, plane.line_size)
            small = cv2.resize(grey[:, :frame.width], (SIDE, SIDE), interpolation=cv2.INTER_AREA)
            found[at], filled[at] = small.reshape(-1), True
    finally:
        source.close()
    return found if filled.mean() > 0.98 else None


def _careful(uri: str, limits: Limits, count: int) -> Thumbs:
    """By the engine's own decoder, pictures that cannot be read left dark."""
    import cv2

    from mlsql.exec.media.decode import Decoder

    found = np.zeros((count, SIDE * SIDE), np.uint8)
    with Decoder(limits) as decoder:
        for position, picture in decoder.decode([Handle(uri, i, None) for i in range(count)]):
            if isinstance(picture, MediaError):
                continue
            grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
            small = cv2.resize(grey, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
            found[position] = small.reshape(-1)
    return found
