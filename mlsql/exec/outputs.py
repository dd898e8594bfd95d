"""Answers as columns: outputs in Arrow, errors by row, and the batch that they fill."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mlsql.errors import ModelOutputError
from mlsql.exec.ahead import arguments
from mlsql.exec.faults import Fault, fault
from mlsql.exec.media.handle import Handle
from mlsql.exec.share import RowError, Share
from mlsql.udfs.spec import ModelSpec
from mlsql.udfs.types import arrow_array, arrow_type


def outputs_of(outcomes: list[Any], spec: ModelSpec) -> tuple[pa.Array, list[Any]]:
    """The outcomes as an array of the model's output type, NULL for a Fault.

    An answer that is not of the type becomes a Fault; the outcomes come back with these.
    """
    arrow = arrow_type(spec.output_type)
    values = [None if isinstance(outcome, Fault) else outcome for outcome in outcomes]
    try:
        return arrow_array(values, arrow, trusted=spec.is_shipped), outcomes
    except TypeError:
        checked = [_fitting(outcome, arrow, spec) for outcome in outcomes]
    values = [None if isinstance(outcome, Fault) else outcome for outcome in checked]
    return arrow_array(values, arrow), checked


def row_errors(
    share: Share, step: int, asked: np.ndarray, which: np.ndarray, outcomes: Sequence[Any]
) -> tuple[RowError, ...]:
    """An error for each asked row whose outcome, the one at `which`, is a Fault; ascending."""
    failed = np.array([isinstance(outcome, Fault) for outcome in outcomes], dtype=bool)[which]
    rows = asked[failed]
    if not len(rows):
        return ()
    values = arguments(share, step, rows)
    errors = []
    for row, at, value in zip(rows.tolist(), which[failed].tolist(), values):
        found = outcomes[at]
        place = (value.uri, value.frame) if isinstance(value, Handle) else (None, None)
        plain = None if isinstance(value, Handle) else _short(value)
        errors.append(RowError(row, step, found.model, found.message, *place, found.cause, plain))
    return tuple(errors)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def filled(rows: pa.Table, step: int, at: np.ndarray, outputs: pa.Array) -> pa.Table:
    """The batch's rows with out_i and known_i as they are once the rows `at` are answered."""
    name = f"out_{step}"
    if name in rows.column_names:
        before = rows.column(name).cast(outputs.type)
        chunks = before.chunks
    else:
        chunks = [pa.nulls(len(rows), outputs.type)]
    source = np.arange(len(rows))
    source[at] = len(rows) + np.arange(len(at))
    merged = pa.chunked_array([*chunks, outputs], outputs.type).take(pa.array(source))
    known = np.zeros(len(rows), dtype=bool)
    if f"known_{step}" in rows.column_names:
        known |= rows.column(f"known_{step}").fill_null(False).to_numpy()
    known[at] = True
    return _with(_with(rows, name, merged), f"known_{step}", pa.array(known))


def _with(rows: pa.Table, name: str, column: Any) -> pa.Table:
    position = rows.schema.get_field_index(name)
    if position < 0:
        return rows.append_column(name, column)
    return rows.set_column(position, name, column)


def _fitting(outcome: Any, arrow: Any, spec: ModelSpec) -> Any:
    if isinstance(outcome, Fault):
        return outcome
    try:
        arrow_array([outcome], arrow)
    except TypeError as error:
        wrong = ModelOutputError(
            f"model {spec.name!r} gave an answer that is no {spec.output_type}: {error}", spec.name
        )
        wrong.__cause__ = error
        return fault(wrong, spec.name)
    return outcome
