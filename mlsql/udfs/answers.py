"""What a user's model answered, brought into the form of its output type or refused.

A batch's answers are a list, or an array whose first axis is the batch: numpy, Arrow or torch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from mlsql.errors import ModelOutputError
from mlsql.udfs.spec import ModelSpec

_FIELDS = ("label", "score", "x1", "y1", "x2", "y2")
_ROUNDING = 1e-4  # how far a probability may lie outside 0..1 and still be a rounding error


def normalised(spec: ModelSpec, answers: Any, inputs: int) -> list[Any]:
    """One answer an input, as Python values of the spec's output type.

    A wrong count, no answer (None) for an input, an unknown label or a wrong shape is a
    ModelOutputError that names the model and the input.
    """
    listed = _listed(spec, answers)
    if len(listed) != inputs:
        raise _error(spec, f"gave {len(listed)} answers for {inputs} inputs")
    form = _FORMS[spec.task]
    found = []
    for position, answer in enumerate(listed):
        try:
            found.append(form(spec, _plain(answer)))
        except _Refused as refused:
            raise _error(spec, f"{refused} (input {position} of {inputs})") from refused.__cause__
    return found


class _Refused(Exception):
    """Why one answer cannot be used."""


def _error(spec: ModelSpec, what: str) -> ModelOutputError:
    return ModelOutputError(f"model {spec.name!r} {what}", spec.name)


def _listed(spec: ModelSpec, answers: Any) -> list[Any]:
    if hasattr(answers, "detach"):  # a torch tensor, wherever it lives
        answers = answers.detach().cpu().numpy()
    if hasattr(answers, "to_pylist"):  # an Arrow array
        answers = answers.to_pylist()
    if isinstance(answers, (str, bytes, Mapping)) or not isinstance(answers, Iterable):
        kind = type(answers).__name__
        raise _error(spec, f"answered a batch with a {kind} rather than a list of answers")
    if getattr(answers, "ndim", 1) == 0:
        raise _error(spec, "answered a batch with a single number rather than a list of answers")
    return list(answers)


def _plain(answer: Any) -> Any:
    """An answer without numpy's or torch's or Arrow's wrapping of a single value."""
    if hasattr(answer, "detach"):
        answer = answer.detach().cpu().numpy()
    if hasattr(answer, "as_py"):
        answer = answer.as_py()
    if getattr(answer, "shape", None) == () and hasattr(answer, "item"):
        answer = answer.item()
    if answer is None:
        raise _Refused("gave no answer (None)")
    return answer


def _detections(spec: ModelSpec, answer: Any) -> list[dict[str, Any]]:
    if isinstance(answer, (str, bytes, Mapping)) or not isinstance(answer, Iterable):
        raise _Refused(f"gave a {type(answer).__name__} rather than a list of detections")
    found = [_detection(spec, item) for item in answer]
    return sorted(found, key=lambda d: -d["score"])


def _detection(spec: ModelSpec, item: Any) -> dict[str, Any]:
    if isinstance(item, Mapping):
        if set(item) != set(_FIELDS):
            raise _Refused(f"gave a detection with the keys {', '.join(map(str, item))} rather than"
                           f" {', '.join(_FIELDS)}")
        values = [item[field] for field in _FIELDS]
    else:
        values = list(item) if isinstance(item, Iterable) and not isinstance(item, str) else [item]
        if len(values) != len(_FIELDS):
            raise _Refused(f"gave a detection of {len(values)} values rather than"
                           f" {', '.join(_FIELDS)}")
    label = _known(spec, _plain(values[0]))
    score = _probability(values[1])
    box = [_number(value) for value in values[2:]]
    if box[2] < box[0] or box[3] < box[1]:
        raise _Refused(f"gave a box whose second corner is not below and right of its first: {box}")
    return dict(zip(_FIELDS, (label, score, *box), strict=True))


def _classes(spec: ModelSpec, answer: Any) -> dict[str, Any]:
    place = {label: index for index, label in enumerate(spec.labels)}
    scores = [0.0] * len(spec.labels)
    if isinstance(answer, str):
        scores[place[_known(spec, answer)]] = 1.0
    elif isinstance(answer, Mapping):
        if not answer:
            raise _Refused("gave no label at all")
        for label, score in answer.items():
            scores[place[_known(spec, label)]] = _probability(score)
    else:
        scores = [_probability(score) for score in _vector(answer, len(scores), "scores")]
    return {"label": spec.labels[scores.index(max(scores))], "scores": scores}


def _embedding(spec: ModelSpec, answer: Any) -> list[float]:
    length = int(re.sub(r"\D", "", spec.output_type))
    return [_number(value) for value in _vector(answer, length, "numbers")]


def _value(spec: ModelSpec, answer: Any) -> Any:
    # Whether it fits the output type is checked where answers become Arrow, for every model alike.
    return answer.tolist() if hasattr(answer, "tolist") else answer


_FORMS: Mapping[str, Callable[[ModelSpec, Any], Any]] = {
    "detect": _detections, "classify": _classes, "embed": _embedding, "predict": _value,
}


def _vector(answer: Any, length: int, what: str) -> list[Any]:
    shape = getattr(answer, "shape", None)
    if shape is not None and tuple(shape) != (length,):
        raise _Refused(f"gave an array of shape {tuple(shape)} rather than {length} {what}")
    if isinstance(answer, (str, bytes, Mapping)) or not isinstance(answer, Iterable):
        raise _Refused(f"gave a {type(answer).__name__} rather than {length} {what}")
    values = list(answer)
    if len(values) != length:
        raise _Refused(f"gave {len(values)} {what} rather than {length}")
    return values


def _known(spec: ModelSpec, label: Any) -> str:
    if label in spec.labels:
        return str(label)
    raise _Refused(f"gave the label {label!r}, which is not among its {len(spec.labels)} labels")


def _number(value: Any) -> float:
    try:
        number = float(_plain(value))
    except (TypeError, ValueError) as error:
        raise _Refused(f"gave {value!r} where a number belongs") from error
    if not math.isfinite(number):
        raise _Refused(f"gave {number} where a number belongs")
    return number


def _probability(value: Any) -> float:
    number = _number(value)
    if not -_ROUNDING <= number <= 1 + _ROUNDING:
        raise _Refused(f"gave the score {number:g}, which is not between 0 and 1")
    return min(max(number, 0.0), 1.0)
