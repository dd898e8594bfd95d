"""CREATE MODEL's options, and the spec of a model that lies in a file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mlsql.errors import ProgrammingError, unknown
from mlsql.udfs.callables import TASKS, Options, check, output_type_of
from mlsql.udfs.framing import WAYS
from mlsql.udfs.spec import IMAGE_TYPE, ModelSpec

Given = Mapping[str, Any]


@dataclass(frozen=True)
class Option:
    """One option of CREATE MODEL: what it means, its default, and what it takes."""

    name: str
    meaning: str
    default: Any = None
    choices: tuple[str, ...] = ()
    fits: Callable[[Any], bool] = lambda value: isinstance(value, str)
    takes: str = "a text"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_share(value: Any) -> bool:
    return _is_number(value) and 0 <= value <= 1


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_size(value: Any) -> bool:
    return _is_count(value) or (
        isinstance(value, list) and len(value) == 2 and all(map(_is_count, value)))


def _is_numbers(value: Any) -> bool:
    return _is_number(value) or (
        isinstance(value, list) and len(value) == 3 and all(map(_is_number, value)))


def _is_texts(value: Any) -> bool:
    return isinstance(value, str) or (
        isinstance(value, list) and all(isinstance(item, str) for item in value))


OPTIONS: Mapping[str, Option] = {o.name: o for o in (
    Option("task", "what the model is for; it must be given", choices=TASKS),
    Option("labels", "the labels, in the order of the model's scores or numbers: a list, a file "
           "with one a line, or 'imagenet' or 'coco'", fits=_is_texts,
           takes="a list of texts, or the name of one"),
    Option("input", "the SQL type of the input, IMAGE or numbers such as FLOAT[4]", "IMAGE"),
    Option("output", "the SQL type of a 'predict' model's answer"),
    Option("size", "pixels of the input, a side or [width, height]", fits=_is_size,
           takes="a number of pixels, or [width, height]"),
    Option("resize", "how a picture is made to fit: stretched, its middle, or with margins",
           "stretch", WAYS),
    Option("scale", "what the bytes of a picture are divided by", 255.0,
           fits=lambda v: _is_number(v) and v != 0, takes="a number"),
    Option("mean", "what is subtracted then, one number or one a channel", 0.0,
           fits=_is_numbers, takes="a number, or three"),
    Option("std", "what is divided by then", 1.0, fits=_is_numbers, takes="a number, or three"),
    Option("channels", "the order of the colours", "rgb", ("rgb", "bgr")),
    Option("layout", "channels first or last", "nchw", ("nchw", "nhwc")),
    Option("head", "which of several outputs is meant, by name or by place from 0",
           fits=lambda v: isinstance(v, (str, int)), takes="a name or a place"),
    Option("scores", "what makes a classifier's outputs probabilities: 'none' where they are that "
           "already; left out, it is found by a trial", None, ("softmax", "sigmoid", "none")),
    Option("boxes", "whether a detector's boxes are in pixels of the input or parts of it",
           "pixels", ("pixels", "relative")),
    Option("min_score", "the score from which on CONTAINS and others count a label", 0.5,
           fits=_is_share, takes="a number from 0 to 1"),
    Option("score_floor", "a detector's things below this score are dropped", 0.05,
           fits=_is_share, takes="a number from 0 to 1"),
    Option("batch_size", "inputs a call", 16, fits=_is_count, takes="a number, 1 or more"),
    Option("runtime", "what runs the file, where it is not known by the file itself"),
    Option("architecture", "whose weights they are, for a file of weights alone, as in "
           "'torchvision.models:resnet18'"),
    Option("arguments", "what the architecture is called with, a struct",
           fits=lambda v: isinstance(v, dict), takes="a struct"),
    Option("space", "models of one space give vectors that SIMILARITY may compare; by default a "
           "model's own name"),
    Option("licence", "shown by DESCRIBE MODEL"),
)}

_FOUND = ("fixed_batch", "vector")  # what the trial found out, kept with the options
_SAID_ELSEWHERE = ("task", "labels", "input", "output", "min_score", "score_floor", "batch_size",
                   "licence", "space", *_FOUND)


def checked_options(name: str, given: Given) -> dict[str, Any]:
    """The options by lower-case name, each of its kind; a wrong one is an error that says which."""
    found: dict[str, Any] = {}
    for written, value in given.items():
        option = OPTIONS.get(written.lower())
        if option is None:
            raise unknown("option", written, OPTIONS, f"of CREATE MODEL {name}")
        if option.choices:
            value = value.lower() if isinstance(value, str) else value
            if value not in option.choices:
                raise _wrong(name, option, " or ".join(map(repr, option.choices)), value)
        elif not option.fits(value):
            raise _wrong(name, option, option.takes, value)
        found[option.name] = value
    if "task" not in found:
        raise ProgrammingError(f"CREATE MODEL {name}: WITH (task => …) must say what it is for: "
                               + ", ".join(map(repr, TASKS)))
    return found


def _wrong(name: str, option: Option, takes: str, value: Any) -> ProgrammingError:
    return ProgrammingError(f"CREATE MODEL {name}: {option.name} is {takes}, not {value!r}")


def named_labels(word: str) -> tuple[str, ...] | None:
    """A list of labels that mlsql knows by name."""
    from mlsql.udfs.labels_coco import COCO_LABELS
    from mlsql.udfs.labels_imagenet import IMAGENET_LABELS

    return {"imagenet": IMAGENET_LABELS, "coco": COCO_LABELS}.get(word.lower())


def file_spec(name: str, path: str, sha256: str, options: Given) -> ModelSpec:
    """The spec of the model in a file; `options` are checked, and `labels` a list."""
    asked = {**{o.name: o.default for o in OPTIONS.values()}, **options}
    vector = options.get("vector")
    output = f"FLOAT[{vector}]" if vector else asked["output"]
    said = Options(name, asked["task"], tuple(asked["labels"] or ()), asked["input"], output,
                   asked["batch_size"], float(asked["min_score"]))
    check(name, said)
    return ModelSpec(
        name=name,
        task=said.task,
        output_type=output_type_of(name, said),
        loader="mlsql.udfs.file_model:load",
        input_type=IMAGE_TYPE if said.input.upper() == "IMAGE" else said.input,
        labels=said.labels,
        min_score=said.min_score,
        score_floor=float(asked["score_floor"]) if said.task == "detect" else 0.0,
        batch_size=said.batch_size,
        weights=path,
        sha256=sha256,
        space=asked["space"] or "",
        licence=asked["licence"] or "",
        origin=path,
        parameters=tuple(sorted(
            (key, _frozen(value)) for key, value in asked.items()
            if key not in _SAID_ELSEWHERE and value is not None)
        ) + tuple((key, options[key]) for key in _FOUND if key in options),
    )


def _frozen(value: Any) -> Any:
    """A value that is the same whenever it is written down."""
    if isinstance(value, dict):
        return json.dumps(value, sort_keys=True)
    return tuple(value) if isinstance(value, list) else value
