"""Shares and events as they travel to a worker and back."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from mlsql.exec.cluster.causes import Cause, packed, unpacked
from mlsql.exec.share import Answers, BatchDone, Counters, Event, RowError, Share, Step
from mlsql.udfs.spec import ModelSpec

Token = tuple[object, ...]


@dataclass(frozen=True)
class ShareParcel:
    """A share whose models are named by tokens: a worker gets each spec once."""

    rows: pa.Table
    steps: tuple[tuple[Token, str, str | None], ...]
    accept: str | None
    wanted: int | None


@dataclass(frozen=True)
class AnswersParcel:
    """Answers whose errors hold their causes in a form that always travels."""

    step: int
    rows: pa.Array
    outputs: pa.Array
    counters: Counters
    errors: tuple[tuple[RowError, tuple[Cause, ...] | None], ...]


Parcel = AnswersParcel | BatchDone


def token_of(spec: ModelSpec) -> Token:
    """What tells a spec apart from all others of this process, as long as it lives."""
    loader = spec.loader if isinstance(spec.loader, str) else id(spec.loader)
    return (spec.fingerprint, spec.name, loader, spec.batch_size)


def share_parcel(share: Share) -> ShareParcel:
    """The share to send: files by their absolute names, as the worker may stand elsewhere."""
    steps = tuple((token_of(s.model), s.argument, s.guard) for s in share.steps)
    rows = share.rows
    media = {step.argument for step in share.steps if step.model.takes_media}
    for name in media:
        column = rows.column(name).combine_chunks()
        rows = rows.set_column(rows.schema.get_field_index(name), name, _absolute(column))
    return ShareParcel(rows, steps, share.accept, share.wanted)


def share_of(parcel: ShareParcel, spec: Callable[[Token], ModelSpec]) -> Share:
    """The share again."""
    steps = tuple(Step(spec(token), argument, guard) for token, argument, guard in parcel.steps)
    return Share(parcel.rows, steps, parcel.accept, parcel.wanted)


def parcel_of(event: Event) -> Parcel:
    """The event to send."""
    if isinstance(event, BatchDone):
        return event
    errors = tuple((replace(e, cause=None), None if e.cause is None else packed(e.cause))
                   for e in event.errors)
    return AnswersParcel(event.step, event.rows, event.outputs, event.counters, errors)


def event_of(parcel: Parcel, share: Share) -> Event:
    """The event again, with the names of files as the share has them."""
    if isinstance(parcel, BatchDone):
        return parcel
    errors = tuple(_as_written(error, causes, share.rows, share.steps[parcel.step].argument)
                   for error, causes in parcel.errors)
    return Answers(parcel.step, parcel.rows, parcel.outputs, parcel.counters, errors)


def _absolute(column: pa.Array) -> pa.Array:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    uris = column.field("uri").dictionary_encode()
    names: Sequence[str | None] = uris.dictionary.to_pylist()
    absolute = [name if name is None or _is_absolute(name) else os.path.abspath(name)
                for name in names]
    if absolute == names:
        return column
    uri = pa.DictionaryArray.from_arrays(uris.indices, pa.array(absolute, pa.string())).cast(
        column.field("uri").type)
    parts = [uri if field.name == "uri" else column.field(field.name) for field in column.type]
    return pa.StructArray.from_arrays(parts, fields=list(column.type), mask=column.is_null())


def _is_absolute(name: str) -> bool:
    return os.path.isabs(name) or ("://" in name and not os.path.lexists(name))


def _as_written(
    error: RowError, causes: tuple[Cause, ...] | None, rows: pa.Table, argument: str
) -> RowError:
    cause: Any = None if causes is None else unpacked(causes)
    uri, message = error.uri, error.message
    if uri is not None:
        written = rows.column(argument)[error.row].as_py()["uri"]
        message = message.replace(uri, written)
        uri = written
    return replace(error, cause=cause, uri=uri, message=message)
