"""What a proxy may look at: features of pictures, where they pay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mlsql.errors import Error
from mlsql.exec.approximate.oracle import Oracle
from mlsql.exec.approximate.tracks import handles
from mlsql.planner.approximate import Population

if TYPE_CHECKING:
    from mlsql.exec.approximate.run import Run


@dataclass(frozen=True)
class Features:
    """Columns for a guess, one row a candidate; None where there are none. `words` says which."""

    columns: NDArray[np.float32] | None
    words: str
    notes: tuple[str, ...] = ()


_MS_A_FRAME = 0.6  # decoding a picture and making a thumbnail of it


def proxy_features(
    run: Run, population: Population, oracle: Oracle, known: NDArray[np.int64], *, wanted: bool
) -> Features:
    """Thumbnails and differences from the background, if they cost less than they may save.

    Neighbours in time are looked at in any case. A feature that cannot be made costs a note.
    """
    from mlsql.exec.approximate.features import features_of, is_constant

    values = next((v for v in (handles(oracle, name) for name in population.arguments)
                   if v is not None), None)
    if values is None:
        return Features(None, "none")
    saved = 0.1 * (oracle.size - len(known)) * oracle.cost_ms()
    if not wanted and saved < _MS_A_FRAME * oracle.size:
        return Features(None, "neighbours")
    try:
        columns = features_of(values, run.runner.limits(), run.cache, run.guardrails.check,
                              run.runner.listings())
    except (Error, OSError, ValueError, ArithmeticError) as error:
        return Features(None, "neighbours",
                        (f"no features, neighbours only: {str(error).splitlines()[0]}",))
    if is_constant(columns):
        return Features(None, "neighbours", ("the features are constant: neighbours only",))
    return Features(columns, "grey thumbnails, differences from the background, neighbours")
