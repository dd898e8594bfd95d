"""How a statement's δ = 1 − confidence is shared among what may fail."""

from __future__ import annotations

from collections.abc import Sequence


def delta_of(confidence: float, operators: int = 1) -> float:
    """δ for each of q approximate operators in a statement: (1 − confidence)/q (union bound)."""
    if not 0 < confidence < 1:
        raise ValueError(f"a confidence lies between 0 and 1, not at {confidence}")
    return (1 - confidence) / max(1, operators)


def delta_by_group(delta: float, sizes: Sequence[int], fewest: float) -> list[float]:
    """δ of each group: nothing for those of at most `fewest` rows, which are labelled in full.

    The others share it equally. `fewest` and the sizes have to be known before any label.
    """
    sampled = sum(size > fewest for size in sizes)
    return [delta / sampled if size > fewest else 0.0 for size in sizes]
