"""What tells the inputs of models apart: the content they come from, and the frame in it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from mlsql.exec.canonical import canonical
from mlsql.exec.fingerprint import (
    Check,
    ContentFingerprints,
    FileState,
    file_state,
    of_bytes,
)
from mlsql.exec.media.recipe import apart
from mlsql.udfs.pictures import MARK

NO_FRAME = -1  # a still, a blob or a value
_LAST_FRAME = 1 << 40
_UNREAD, _READ, _UNREADABLE = 0, 1, 2


@dataclass(frozen=True)
class Places:
    """Rows as (content, frame): `high` and `low` are the distinct contents, ascending.

    `content` counts into them and is -1 where a row has no key; `frame` is NO_FRAME where the
    content is the input. All are numpy arrays (uint64, uint64, int64, int64).
    """

    high: np.ndarray
    low: np.ndarray
    content: np.ndarray
    frame: np.ndarray

    def take(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """High and low halves of the content, and the frame, of rows that have a key."""
        content = self.content[rows]
        return self.high[content], self.low[content], self.frame[rows]


class Origins:
    """The files, blobs and values that arguments come from; files are read when first needed."""

    def __init__(
        self, states: list[FileState | None], digests: np.ndarray, status: np.ndarray,
        files: ContentFingerprints, check: Check | None, recipes: Mapping[int, bytes] | None = None,
    ) -> None:
        self._states = states
        self._recipes = recipes or {}  # of those that are made of what their state or digest says
        self._digests = digests  # (n, 2) uint64
        self._status = status
        self._files = files
        self._check = check
        self._lock = threading.Lock()

    def digests(self, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The digest of each of these origins, (n, 2) uint64, and whether there is one."""
        with self._lock:
            self._read(which[self._status[which] == _UNREAD])
        return self._digests[which], self._status[which] == _READ

    def unchanged(self, which: np.ndarray) -> np.ndarray:
        """For each of these origins whether it still is what it was when it was first seen."""
        return np.fromiter((self._is_unchanged(i) for i in which.tolist()), bool, len(which))

    def _is_unchanged(self, index: int) -> bool:
        if index < 0:
            return False
        state = self._states[index]
        return state is None or file_state(state.path) == state

    def _read(self, which: np.ndarray) -> None:
        states = {i: state for i in which.tolist() if (state := self._states[i]) is not None}
        if not states:
            return
        found = self._files.of_states(states.values(), self._check)
        for index, state in states.items():
            digest = found[state]
            if isinstance(digest, bytes):
                self._digests[index] = _halves([_of_made(digest, self._recipes.get(index))])[0]
                self._status[index] = _READ
            else:
                self._status[index] = _UNREADABLE


class Keys:
    """One key an argument, in order. An argument that is NULL or cannot be read has none.

    Two keys are the same input if they have the same `ids`, wherever the bytes lie.
    """

    def __init__(self, origins: Origins, origin: np.ndarray, frame: np.ndarray) -> None:
        self._origins = origins
        self._origin = origin
        self._frame = frame

    def __len__(self) -> int:
        return len(self._origin)

    def take(self, indices: pa.Array | np.ndarray) -> Keys:
        """The keys at these positions."""
        rows = np.asarray(indices)
        return Keys(self._origins, self._origin[rows], self._frame[rows])

    @cached_property
    def places(self) -> Places:
        """The keys as numbers; this reads the files that were not read before."""
        used, row = np.unique(self._origin, return_inverse=True)
        real = used >= 0
        digests = np.zeros((len(used), 2), np.uint64)
        known = np.zeros(len(used), bool)
        digests[real], known[real] = self._origins.digests(used[real])
        high, low, content = _distinct(digests[known])
        of_used = np.full(len(used), -1, np.int64)
        of_used[known] = content
        return Places(high, low, of_used[row], self._frame)

    @property
    def ids(self) -> pa.Array:
        """For each argument the position of the first that is the same input, int64.

        One without a key is its own first.
        """
        places = self.places
        ids = np.arange(len(self))
        rows = np.flatnonzero(places.content >= 0)
        frames, frame = np.unique(places.frame[rows], return_inverse=True)
        joint = places.content[rows] * len(frames) + frame
        _, first, which = np.unique(joint, return_index=True, return_inverse=True)
        ids[rows] = rows[first[which]]
        return pa.array(ids)

    def unchanged(self) -> np.ndarray:
        """For each argument whether its file is still the one that the key was made of."""
        used, row = np.unique(self._origin, return_inverse=True)
        fresh: np.ndarray = self._origins.unchanged(used)[row]
        return fresh


def media_keys(
    arguments: pa.StructArray, files: ContentFingerprints, check: Check | None = None
) -> Keys:
    """The keys of pictures given as structs of uri, frame and data; data goes before uri."""
    uri, frame, data = arguments.flatten()
    words = uri.dictionary_encode()
    blobs = data.drop_null()
    origin = words.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    uris = words.dictionary.to_pylist()
    with_data = np.flatnonzero(data.is_valid().to_numpy(zero_copy_only=False))
    start_from = origin[with_data]
    origin[with_data] = len(uris) + np.arange(len(blobs))
    states = [_state(name) for name in uris]
    status = np.full(len(uris) + len(blobs), _READ, np.int8)
    status[:len(uris)] = [_UNREAD if state else _UNREADABLE for state in states]
    recipes = _recipes(blobs, len(uris))
    made_of = {}  # the file that a recipe without a picture of its own starts from
    for index, (_, picture) in recipes.items():
        if picture is None:
            file = int(start_from[index - len(uris)])
            made_of[index] = states[file] if file >= 0 else None
            status[index] = _UNREAD if made_of[index] else _UNREADABLE
    digests = np.zeros((len(status), 2), np.uint64)
    digests[len(uris):] = _halves(
        _of_made(of_bytes(found[1] or b""), found[0]) if (found := recipes.get(index)) is not None
        else of_bytes(blob.as_buffer()) for index, blob in enumerate(blobs, len(uris)))
    frames = frame.cast(pa.int64())
    numbers = frames.fill_null(NO_FRAME).to_numpy(zero_copy_only=False)
    # -1 as a frame would pass for none; such a number is no picture and gets no key.
    wrong = frames.is_valid().to_numpy(zero_copy_only=False) & (
        (numbers < 0) | (numbers >= _LAST_FRAME))
    origin[wrong] = -1
    all_states = [*states, *(made_of.get(len(uris) + i) for i in range(len(blobs)))]
    lines = {index: found[0] for index, found in recipes.items()}
    return Keys(Origins(all_states, digests, status, files, check, lines), origin, numbers)


def value_keys(arguments: pa.Array, files: ContentFingerprints) -> Keys:
    """The keys of SQL values: equal where DuckDB finds the values not distinct."""
    valid = arguments.is_valid().to_numpy(zero_copy_only=False)
    digests = _halves(of_bytes(b"value:" + cell) for cell in canonical(arguments))
    origins = Origins([None] * len(arguments), digests, np.full(len(arguments), _READ, np.int8),
                      files, None)
    origin = np.where(valid, np.arange(len(arguments)), -1)
    return Keys(origins, origin, np.full(len(arguments), NO_FRAME, np.int64))


def is_media(kind: pa.DataType) -> bool:
    """Whether arguments of that type are pictures."""
    return bool(pa.types.is_struct(kind)) and [field.name for field in kind] == [
        "uri", "frame", "data"]


def _recipes(blobs: pa.Array, first: int) -> dict[int, tuple[bytes, bytes | None]]:
    """Those of the blobs that are recipes, counted from `first`: the recipe, and its picture."""
    if not len(blobs):
        return {}
    import pyarrow.compute as pc

    start = pc.binary_slice(blobs, 0, len(MARK))
    rows = np.flatnonzero(pc.equal(start, MARK.encode()).to_numpy(zero_copy_only=False))
    return {first + int(row): apart(blobs[int(row)].as_py()) for row in rows}


def _of_made(digest: bytes, lines: bytes | None) -> bytes:
    """The digest of what a recipe makes of the content with this digest."""
    return digest if lines is None else of_bytes(b"made:" + digest + lines)


def _state(uri: str) -> FileState | None:
    state = file_state(uri)
    return state if isinstance(state, FileState) else None


def _halves(digests: Iterable[bytes]) -> np.ndarray:
    """Digests of 16 bytes as an (n, 2) array of uint64."""
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64).reshape(-1, 2)


def _distinct(digests: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The distinct digests in order, as high and low halves, and the place of each among them."""
    order = np.lexsort((digests[:, 1], digests[:, 0]))
    ordered = digests[order]
    new = np.ones(len(ordered), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    place = np.empty(len(ordered), np.int64)
    place[order] = np.cumsum(new) - 1
    return ordered[new, 0], ordered[new, 1], place
