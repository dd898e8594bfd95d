"""Tables whose answers are known in full, on which the promises of the targets are tried.

Real ones come from MLSQL_TEST_DATA; the others are drawn here, from fixed seeds.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
ROOT = Path(__file__).resolve().parent.parent
COUNTS = {
    "jackson": "jackson-town-square-2017-12-17-true.parquet",
    "taipei": "taipei-hires-car-2017-04-13-true.parquet",
    "grand-canal": "venice-grand-canal-2018-01-20-true.parquet",
}
HOUR = 30 * 3600  # frames


@dataclass(frozen=True)
class Scored:
    """Rows with the oracle's answer and a proxy's score."""

    labels: NDArray[np.bool_]
    scores: Floats


def data_folder() -> Path | None:
    """The folder of test data, None where there is none."""
    folder = Path(os.environ.get("MLSQL_TEST_DATA") or ROOT.parent / "shared" / "data")
    return folder if (folder / "tables").is_dir() else None


@cache
def counts(name: str) -> Floats:
    """Objects in each frame of a day-long stream, in order."""
    import pyarrow.parquet as pq

    folder = data_folder()
    assert folder is not None
    return pq.read_table(folder / "tables" / "counts" / COUNTS[name]).column(0).to_numpy() * 1.0


def supg(name: str) -> Scored:
    """A data set of the SUPG paper: label and proxy score of each row."""
    folder = data_folder()
    assert folder is not None
    with open(folder / "tables" / "supg" / f"{name}.csv", newline="") as file:
        rows = [(row["label"] in ("True", "1", "1.0"), float(row["proxy_score"]))
                for row in csv.DictReader(file)]
    table = np.array(rows, float)
    return Scored(table[:, 0] > 0, table[:, 1])


def drawn(size: int, positives: int, apart: float = 2.0, seed: int = 1) -> Scored:
    """Rows of which `positives` score higher, by `apart` standard deviations, in random order."""
    rng = np.random.default_rng(seed)
    labels = np.zeros(size, bool)
    labels[rng.permutation(size)[:positives]] = True
    return Scored(labels, 1 / (1 + np.exp(2 - rng.normal(apart * labels))))


def made_tables() -> dict[str, Scored]:
    """The hard cases, by name."""
    one = drawn(20_000, 200)
    by_label = np.argsort(one.labels, kind="stable")
    rng = np.random.default_rng(2)
    holes = one.scores.copy()
    holes[rng.random(len(holes)) < 0.05] = np.nan
    confident = np.where(one.scores > 0.3, 1.0, 0.0)
    return {
        "prevalence 50 %": drawn(20_000, 10_000),
        "prevalence 1 %": one,
        "prevalence 0.1 %": drawn(20_000, 20),
        "sorted by label": Scored(one.labels[by_label], one.scores[by_label]),
        "constant proxy": Scored(one.labels, np.full(20_000, 0.5)),
        "inverted proxy": Scored(one.labels, 1 - one.scores),
        "over-confident proxy": Scored(one.labels, confident),
        "ties": Scored(one.labels, np.round(one.scores, 1)),
        "NULL scores": Scored(one.labels, holes),
        "no positive": drawn(2_000, 0),
        "one positive": drawn(2_000, 1),
        "all positive": drawn(2_000, 2_000),
        "budget over rows": drawn(200, 20),
    }


def temporal() -> Scored:
    """100,000 frames in a row with runs of at least 3 objects, and a smoothed, noisy proxy."""
    count = counts("jackson")[:100_000]
    smooth = np.convolve(count, np.ones(31) / 31, mode="same")
    noise = np.random.default_rng(3).normal(0, 0.5, len(count))
    return Scored(count >= 3, 1 / (1 + np.exp(3 - smooth - noise)))


def selection_tables() -> dict[str, Scored]:
    """All tables for recall and precision targets."""
    out = made_tables()
    if data_folder() is not None:
        out |= {"imagenet": supg("imagenet"), "onto": supg("onto"), "temporal runs": temporal()}
    return out


def proxy_for(values: Floats, correlation: float, seed: int = 4) -> Floats:
    """A proxy with the given correlation to the values."""
    noise = np.random.default_rng(seed).normal(size=len(values)) * values.std()
    return np.asarray(correlation * values + (1 - correlation**2) ** 0.5 * noise)
