"""What the cache of model outputs costs: `python benchmarks/cache.py [folder for 2 GB]`.

Prints one line a measurement: what is looked up out of what, milliseconds by the clock and of CPU,
rows a second. "cold" is a cache just opened (its files in the page cache), "again" the same look-up
repeated.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from mlsql.exec.cache import OutputCache
from mlsql.udfs.spec import DETECTIONS_TYPE, IMAGE_TYPE, ModelSpec
from mlsql.udfs.types import arrow_type

RNG = np.random.default_rng(0)
COUNT = ModelSpec("count", "predict", "INTEGER", "no:loader")
DETECT = ModelSpec("detect", "detect", DETECTIONS_TYPE, "no:loader")
Result = TypeVar("Result")


def main() -> None:
    """All measurements, in a folder that goes away."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        jamcam(Path(folder, "jamcam"))
        ten_million(Path(folder, "ten_million"))
        stills(Path(folder, "stills"))
        detections_of_a_million(Path(folder, "million"))


def jamcam(folder: Path) -> None:
    """14,697 frames of 55 clips, about 10 boxes each."""
    clips = contents(folder / "clips", 55, 2_000_000)
    counts = np.diff(np.linspace(0, 14_697, 56).astype(int))
    arguments = pictures(clips, counts)
    outputs = detections(len(arguments))
    cache = OutputCache(folder)
    keys = timed("fingerprints of 55 clips, 110 MB", len(clips),
                 lambda: with_places(cache, arguments))
    timed("write 14,697 detections, 64 at a time", len(arguments),
          lambda: write(cache, DETECT, keys, outputs, 64))
    cache.close()
    look("14,697 of 14,697 detections", folder, DETECT, arguments, outputs)
    look("267 of 14,697 detections, one clip", folder, DETECT, arguments[:267], outputs[:267])


def ten_million(folder: Path) -> None:
    """100,000 of 10,000,000 frames of 1,000 videos, small outputs."""
    clips = contents(folder / "clips", 1000, 100)
    cache = OutputCache(folder)
    for start in range(0, 1000, 50):
        arguments = pictures(clips[start:start + 50], np.full(50, 10_000))
        write(cache, COUNT, with_places(cache, arguments), numbers(arguments), 500_000)
    cache.close()
    which = np.sort(RNG.choice(10_000_000, 100_000, replace=False))
    uris = pa.array(clips).take(pa.array(which // 10_000))
    scattered = picture_array(uris, which % 10_000)
    look("100,000 scattered of 10,000,000 counts", folder, COUNT, scattered, numbers(scattered))
    ten = pictures(clips[500:510], np.full(10, 10_000))
    look("100,000 of 10 videos of 10,000,000 counts", folder, COUNT, ten, numbers(ten))
    few = picture_array(uris.slice(0, 64), which[:64] % 10_000)
    look("64 of 10,000,000 counts", folder, COUNT, few, numbers(few))


def stills(folder: Path) -> None:
    """100,000 picture files of which half are known."""
    files = contents(folder / "files", 100_000, 20)
    arguments = picture_array(pa.array(files), None)
    outputs = pa.array(np.arange(100_000, dtype=np.int32))
    cache = OutputCache(folder)
    keys = timed("fingerprints of 100,000 small files", 100_000,
                 lambda: with_places(cache, arguments))
    half = np.arange(0, 100_000, 2)
    timed("write 50,000 counts of stills, 64 at a time", 50_000,
          lambda: write(cache, COUNT, keys.take(half), outputs.take(pa.array(half)), 64))
    cache.close()
    known = np.arange(100_000) % 2 == 0
    look("50,000 known of 100,000 stills", folder, COUNT, arguments,
         pa.array(np.arange(100_000, dtype=np.int32), mask=~known))


def detections_of_a_million(folder: Path) -> None:
    """One video of 100,000 frames among ten, a million detection lists in all."""
    clips = contents(folder / "clips", 10, 100)
    cache = OutputCache(folder)
    outputs = detections(100_000)
    for clip in clips:
        arguments = pictures([clip], np.array([100_000]))
        write(cache, DETECT, with_places(cache, arguments), outputs, 20_000)
    cache.close()
    size = sum(path.stat().st_size for path in (folder / "outputs").rglob("*.parquet"))
    print(f"1,000,000 detection lists take {size / 1e6:,.0f} MB")
    look("100,000 of 1,000,000 detections, one video", folder, DETECT,
         pictures(clips[3:4], np.array([100_000])), outputs)
    which = np.sort(RNG.choice(100_000, 1000, replace=False))
    look("1,000 scattered of 1,000,000 detections", folder, DETECT,
         picture_array(pa.array([clips[3]] * 1000), which), outputs.take(pa.array(which)))


def look(
    what: str, folder: Path, spec: ModelSpec, arguments: pa.Array, expected: pa.Array
) -> None:
    """Look up with a cache just opened, twice, and compare."""
    cache = OutputCache(folder)
    keys = timed(f"{what}: keys", len(arguments), lambda: with_places(cache, arguments))
    for when in ("cold", "again"):
        _, found = timed(f"{what}: {when}", len(arguments), lambda: cache.lookup(spec, keys))
        assert found.equals(expected.cast(found.type))
    cache.close()


def with_places(cache: OutputCache, arguments: pa.Array):  # type: ignore[no-untyped-def]
    """Keys whose files have been read."""
    keys = cache.keys(arguments)
    keys.places  # noqa: B018
    return keys


def write(cache, spec, keys, outputs, step: int) -> None:  # type: ignore[no-untyped-def]
    """All outputs, `step` at a time."""
    for start in range(0, len(keys), step):
        rows = np.arange(start, min(start + step, len(keys)))
        cache.write(spec, keys.take(rows), outputs.slice(start, len(rows)))
    cache.flush()


def contents(folder: Path, count: int, size: int) -> list[str]:
    """Files of random bytes."""
    folder.mkdir(parents=True)
    paths = [folder / f"{i:06}" for i in range(count)]
    for path in paths:
        path.write_bytes(RNG.bytes(size))
    return [str(path) for path in paths]


def pictures(uris: list[str], counts: np.ndarray) -> pa.Array:
    """Every frame of videos of so many frames."""
    frame = np.concatenate([np.arange(count) for count in counts])
    which = np.repeat(np.arange(len(uris)), counts)
    return picture_array(pa.array(uris).take(pa.array(which)), frame)


def picture_array(uri: pa.Array, frame: np.ndarray | None) -> pa.Array:
    """Media handles."""
    frames = pa.nulls(len(uri), pa.int64()) if frame is None else pa.array(frame)
    parts = [uri.cast(pa.string()), frames, pa.nulls(len(uri), pa.binary())]
    return pa.StructArray.from_arrays(parts, fields=list(arrow_type(IMAGE_TYPE)))


def numbers(arguments: pa.Array) -> pa.Array:
    """A small number for each frame."""
    return pa.array((arguments.field("frame").to_numpy() % 31).astype(np.int32))


def detections(count: int) -> pa.Array:
    """About ten boxes each, of eight labels, float32 as models give them."""
    boxes = RNG.poisson(10, count)
    total = int(boxes.sum())
    words = pa.array(["car", "truck", "bus", "person", "bicycle", "dog", "boat", "bird"])
    columns = [words.take(pa.array(RNG.integers(0, 8, total)))]
    for scale in (1, 352, 288, 352, 288):
        values = RNG.random(total, np.float32) * np.float32(scale)
        columns.append(pa.array(values.astype(np.float64)))
    names = ["label", "score", "x1", "y1", "x2", "y2"]
    items = pa.StructArray.from_arrays(columns, names=names)
    offsets = np.concatenate([[0], np.cumsum(boxes)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), items).cast(arrow_type(DETECTIONS_TYPE))


def timed(what: str, rows: int, run: Callable[[], Result]) -> Result:
    """Run and print how long it took."""
    start, cpu = time.perf_counter(), time.process_time()
    result = run()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    print(f"{what:58} {seconds * 1e3:9,.1f} ms, CPU {cpu * 1e3:9,.1f} ms {rows / seconds:12,.0f}/s",
          flush=True)
    return result


if __name__ == "__main__":
    main()
