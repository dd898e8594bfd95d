"""Any Python callable over a batch as a model: `@model(task=…)`, or `spec_of(function, task=…)`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import update_wrapper
from typing import Any

from mlsql.errors import ProgrammingError
from mlsql.udfs.answers import normalised
from mlsql.udfs.code_hash import code_hash
from mlsql.udfs.spec import DETECTIONS_TYPE, IMAGE_TYPE, Model, ModelSpec, classes_type

TASKS = ("detect", "classify", "predict", "embed")


@dataclass(frozen=True)
class Options:
    """What is said of a callable beside its code; see `model`."""

    name: str | None = None
    task: str = ""
    labels: tuple[str, ...] = ()
    input: str = "IMAGE"
    output: str | None = None
    batch_size: int = 16
    min_score: float = 0.5
    deterministic: bool = True
    version: str = "1"
    space: str = ""


class CallableModel:
    """A callable and what is said of it; called, it is the callable itself."""

    def __init__(self, target: Callable[..., Any], options: Options) -> None:
        self.target, self.options = target, options
        if not inspect.isclass(target):
            update_wrapper(self, target)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.target(*args, **kwargs)


def model(
    name: str | None = None, *, task: str, labels: Sequence[str] = (), input: str = "IMAGE",
    output: str | None = None, batch_size: int = 16, min_score: float = 0.5,
    deterministic: bool = True, version: str = "1", space: str = "",
) -> Callable[[Callable[..., Any]], CallableModel]:
    """Make a function, or a class that loads in __init__ and infers in __call__, a model.

    It is given a list of inputs and answers with as many: RGB uint8 arrays (height, width, 3) for
    IMAGE, else Python values. 'detect' answers with lists of (label, score, x1, y1, x2, y2) in
    pixels; 'classify' with a label, {label: probability} or the probabilities in the order of
    `labels`; 'embed' with vectors of the length that `output` ('FLOAT[384]') says; 'predict' with
    values of the SQL type `output`. A class is made once a worker, with the device if its __init__
    takes `device`. Vectors of models of one `space` may be compared by SIMILARITY.

    Answers are cached by the callable's code, what that refers to, and `version`: raise `version`
    when what it reads from elsewhere (a file, a service) changes. See `code_hash`.
    """
    options = Options(name, task, _sequence(labels), input, output, batch_size, min_score,
                      deterministic, version, space)
    return lambda target: CallableModel(target, options)


def spec_of(target: Callable[..., Any], name: str | None = None, **options: Any) -> ModelSpec:
    """The spec of a callable, or of what `model` made of one; `options` are those of `model`."""
    given = target.options if isinstance(target, CallableModel) else Options()
    function = target.target if isinstance(target, CallableModel) else target
    if not callable(function):
        raise ProgrammingError(f"a model is a callable, not a {type(function).__name__}")
    if "labels" in options:
        options["labels"] = _sequence(options["labels"])
    try:
        said = replace(given, **options)
    except TypeError as error:
        raise ProgrammingError(f"a model's options are those of mlsql.model: {error}") from None
    title = name or said.name or str(getattr(function, "__name__", type(function).__name__))
    check(title, said)
    return ModelSpec(
        name=title,
        task=said.task,
        output_type=output_type_of(title, said),
        loader=_Loader(function),
        input_type=IMAGE_TYPE if said.input.upper() == "IMAGE" else said.input,
        labels=said.labels,
        min_score=said.min_score,
        batch_size=said.batch_size,
        version=said.version,
        deterministic=said.deterministic,
        space=said.space,
        origin=f"Python: {_where(function)}",
        parameters=(("code", code_hash(function)), ("input", said.input.upper())),
    )


class _Loader:
    """Makes the model in a worker; a class rather than a closure, so that it can travel."""

    def __init__(self, target: Callable[..., Any]) -> None:
        self.target = target

    def __call__(self, spec: ModelSpec, device: str) -> Model:
        function = self.target
        if inspect.isclass(function):
            takes_device = "device" in inspect.signature(function).parameters
            function = self.target(device=device) if takes_device else self.target()
        return _Called(spec, function)


class _Called:
    """A callable as a `mlsql.udfs.spec.Model`."""

    def __init__(self, spec: ModelSpec, function: Callable[[list[Any]], Any]) -> None:
        self._spec, self._function = spec, function

    def prepare(self, value: Any) -> Any:
        """The input as it is: what to make of it is the callable's affair."""
        return value

    def infer(self, prepared: Sequence[Any]) -> list[Any]:
        """The callable's answers, checked and in the form of the spec's output type."""
        if not prepared:
            return []
        return normalised(self._spec, self._function(list(prepared)), len(prepared))


def check(name: str, said: Options) -> None:
    """Refuse what cannot be said of a model: an unknown task, no labels or twice the same."""
    if name == "<lambda>" or not name.strip():
        raise ProgrammingError("a lambda has no name: give the model one, name='…'")
    if said.task not in TASKS:
        known = ", ".join(map(repr, TASKS))
        raise ProgrammingError(f"model {name!r}: task is one of {known}, not {said.task!r}")
    if said.task in ("detect", "classify"):
        _check_labels(name, said.labels)
    if said.batch_size < 1:
        raise ProgrammingError(f"model {name!r}: batch_size is 1 or more, not {said.batch_size}")
    if not 0 <= said.min_score <= 1:
        raise ProgrammingError(f"model {name!r}: min_score is 0 to 1, not {said.min_score}")


def _check_labels(name: str, labels: tuple[str, ...]) -> None:
    if not labels:
        raise ProgrammingError(f"model {name!r}: labels=[…] must list what it can see")
    seen: set[str] = set()
    for label in labels:
        if not isinstance(label, str) or not label.strip():
            raise ProgrammingError(f"model {name!r}: {label!r} is no label")
        if label.strip().lower() in seen:
            raise ProgrammingError(f"model {name!r}: the label {label!r} is there twice")
        seen.add(label.strip().lower())


def output_type_of(name: str, said: Options) -> str:
    """The output type of a model of that task; what is missing or does not fit is an error."""
    fixed = {"detect": DETECTIONS_TYPE, "classify": classes_type(len(said.labels))}.get(said.task)
    if fixed is not None:
        if said.output is not None:
            raise ProgrammingError(f"model {name!r}: the output of task {said.task!r} is fixed")
        return fixed
    if said.output is None:
        example = "FLOAT[384]" if said.task == "embed" else "BOOLEAN"
        raise ProgrammingError(f"model {name!r}: output='…' must say the type, as in {example!r}")
    if said.task == "embed" and not re.fullmatch(r"(?i)\s*FLOAT\s*\[\s*\d+\s*\]\s*", said.output):
        raise ProgrammingError(
            f"model {name!r}: an embedding's output is FLOAT[n], not {said.output!r}")
    return said.output


def _sequence(labels: Sequence[str]) -> tuple[str, ...]:
    if isinstance(labels, str):
        raise ProgrammingError(f"labels is a list of words, not the text {labels!r}")
    return tuple(labels)


def _where(target: Any) -> str:
    kind = target if hasattr(target, "__qualname__") else type(target)
    return f"{kind.__module__}.{kind.__qualname__}"
