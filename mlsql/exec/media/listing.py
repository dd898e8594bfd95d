"""The pictures of one video: their number, times and sizes, without a pixel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from mlsql.exec.media.wire import Message

if TYPE_CHECKING:
    import numpy as np

    Ints = np.ndarray[Any, np.dtype[np.int64]]
    Flags = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True, eq=False)
class VideoListing:
    """The pictures of a video in presentation order; row i is frame_id i.

    `pts` is in units of `time_base` seconds. `width` and `height` are of the upright picture.
    `lost` marks pictures that the file's index names, but whose data the file lacks.
    `anchors` are the pts and dts of the key pictures, hidden ones too, to which a reader may seek.
    `by_pts`: the pts are distinct and rising, and decoders give them back, so that they tell
    pictures apart; else only a count from the start does. `source` says what was counted:
    'packets' or decoded 'pictures'. An `exotic` video is decoded in the contained process.
    """

    pts: Ints
    keyframe: Flags
    lost: Flags
    anchors: Ints  # (2, n)
    width: int
    height: int
    time_base: Fraction
    format: str
    codec: str
    by_pts: bool
    source: str
    exotic: bool = False

    def __len__(self) -> int:
        return len(self.pts)

    @property
    def ts(self) -> np.ndarray[Any, np.dtype[np.float64]]:
        """Seconds from the first picture, float64."""
        rise = self.pts - self.pts[:1]
        # Multiplied before it is divided: one rounding, so 3 x 1/10 is .3 and not .30000000000004.
        return rise * self.time_base.numerator / self.time_base.denominator


_ARRAYS = ("pts", "keyframe", "lost", "anchors")
_WORDS = ("width", "height", "format", "codec", "by_pts", "source", "exotic")


def to_wire(listing: VideoListing) -> tuple[Message, list[bytes | memoryview]]:
    """The listing as a JSON message and its arrays' bytes."""
    message: Message = {name: getattr(listing, name) for name in _WORDS}
    message["time_base"] = [listing.time_base.numerator, listing.time_base.denominator]
    return message, [getattr(listing, name).tobytes() for name in _ARRAYS]


def from_wire(message: Message, blobs: Sequence[bytearray | memoryview]) -> VideoListing:
    """The listing of such a message; ValueError or KeyError if it is none."""
    import numpy as np

    kinds = (np.int64, np.bool_, np.bool_, np.int64)
    arrays: dict[str, Any] = {
        name: np.frombuffer(blob, kind)
        for name, kind, blob in zip(_ARRAYS, kinds, blobs, strict=True)
    }
    arrays["anchors"] = arrays["anchors"].reshape(2, -1)
    if not len(arrays["pts"]) == len(arrays["keyframe"]) == len(arrays["lost"]):
        raise ValueError("a listing's columns differ in length")
    words: dict[str, Any] = {name: message[name] for name in _WORDS}
    return VideoListing(**arrays, **words, time_base=Fraction(*message["time_base"]))
