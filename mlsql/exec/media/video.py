"""The listing of a video: from memory, from the memo folder, or from the file."""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path

from mlsql.exec.media import memo as memos
from mlsql.exec.media.handle import Limits, stat_file
from mlsql.exec.media.listing import VideoListing, from_wire
from mlsql.exec.media.memo import Identity
from mlsql.exec.media.opening import NotHere
from mlsql.exec.media.scan import scan_video

__all__ = ["VideoListing", "list_video"]

_KEPT_PICTURES = 4_000_000  # of all listings held in memory; about 18 bytes each
_lock = threading.Lock()
_held: OrderedDict[Identity, VideoListing] = OrderedDict()


def list_video(path: str, limits: Limits, memo: Path | None = None) -> VideoListing:
    """The pictures of a video file in presentation order; no picture but the first is decoded.

    `memo` is a folder in which listings are kept between processes. MediaError where the file is
    missing, forbidden, too large by `limits`, or no video.
    """
    local = limits.check(path)
    key = memos.identity(local, stat_file(local, path))
    listing = _recall(key)
    if listing is None and memo is not None:
        listing = memos.load(memo, key)
    if listing is None:
        listing = _scan(local, limits, path)
        if memo is not None:
            memos.save(memo, key, listing)
    _remember(key, listing)
    limits.check_size(listing.width, listing.height, path)
    return listing


def _scan(local: str, limits: Limits, name: str) -> VideoListing:
    try:
        return scan_video(local, limits, name)
    except NotHere:
        from mlsql.exec.media.child import LISTING_SECONDS, child

        request = {"op": "list", "path": local, "max_pixels": limits.max_pixels}
        return from_wire(*child().call(request, name, seconds=LISTING_SECONDS))


def _recall(key: Identity) -> VideoListing | None:
    with _lock:
        listing = _held.get(key)
        if listing is not None:
            _held.move_to_end(key)
        return listing


def _remember(key: Identity, listing: VideoListing) -> None:
    with _lock:
        _held[key] = listing
        _held.move_to_end(key)
        total = sum(map(len, _held.values())) if len(_held) % 64 == 0 else 0
        while total > _KEPT_PICTURES and len(_held) > 1:
            total -= len(_held.popitem(last=False)[1])
