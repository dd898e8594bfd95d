"""Python callables as models."""

from __future__ import annotations

import pickle
import re
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mlsql.errors import ModelOutputError, ProgrammingError
from mlsql.udfs.callables import CallableModel, model, spec_of
from mlsql.udfs.spec import DETECTIONS_TYPE, IMAGE_TYPE, ModelSpec

PICTURES = [np.full((4, 6, 3), value, np.uint8) for value in (10, 200, 90)]


def answers(spec: ModelSpec, inputs: Sequence[Any]) -> list[Any]:
    loaded = spec.load("cpu")
    return list(loaded.infer([loaded.prepare(value) for value in inputs]))


def classify(answer: Callable[[list[Any]], Any], **more: Any) -> ModelSpec:
    return spec_of(answer, name="c", task="classify", labels=["dark", "light"], **more)


def test_a_decorated_function_stays_a_function() -> None:
    @model(task="predict", input="INTEGER", output="BOOLEAN", version="7")
    def is_even(values: list[int]) -> list[bool]:
        """Whether each is even."""
        return [value % 2 == 0 for value in values]

    assert isinstance(is_even, CallableModel)
    assert is_even([1, 2]) == [False, True]
    assert is_even.__doc__ == "Whether each is even."
    spec = spec_of(is_even)
    assert (spec.name, spec.task, spec.input_type, spec.output_type, spec.version) == (
        "is_even", "predict", "INTEGER", "BOOLEAN", "7")
    assert answers(spec, [3, 4]) == [False, True]
    assert spec_of(is_even, name="other", batch_size=3).batch_size == 3


def test_media_models_get_pictures_as_they_are() -> None:
    seen: list[Any] = []

    def look(pictures: list[Any]) -> list[list[Any]]:
        seen.extend(pictures)
        return [[("light", 0.5, 0, 0, 1, 2), ("dark", np.float32(0.75), 1, 1, 2.5, 3)], [], []]

    spec = spec_of(look, task="detect", labels=("dark", "light"))
    assert (spec.input_type, spec.output_type) == (IMAGE_TYPE, DETECTIONS_TYPE)
    assert answers(spec, PICTURES) == [
        [{"label": "dark", "score": 0.75, "x1": 1, "y1": 1, "x2": 2.5, "y2": 3},
         {"label": "light", "score": 0.5, "x1": 0, "y1": 0, "x2": 1, "y2": 2}], [], []]
    assert all(a is b for a, b in zip(seen, PICTURES, strict=True))


def test_detections_may_be_dicts() -> None:
    box = {"label": "dark", "score": 1, "x1": 0, "y1": 0, "x2": 1, "y2": 1}
    spec = spec_of(lambda p: [[box]] * len(p), name="d", task="detect", labels=["dark"])
    assert answers(spec, PICTURES[:2]) == [[box], [box]]


@pytest.mark.parametrize("answer", [
    ["dark", "light", "dark"],
    [{"dark": 1.0}, {"light": 1.0, "dark": 0.0}, {"dark": 1}],
    [[1, 0], (0, 1), np.array([1.0, 0.0])],
    np.array([[1, 0], [0, 1], [1, 0]], np.float32),
    pa.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]),
    pa.array(["dark", "light", "dark"]),
    (label for label in ("dark", "light", "dark")),
])
def test_the_forms_of_a_classification(answer: Any) -> None:
    found = answers(classify(lambda _: answer), PICTURES)
    assert [f["label"] for f in found] == ["dark", "light", "dark"]
    assert [list(f["scores"]) for f in found] == [[1, 0], [0, 1], [1, 0]]


def test_embeddings() -> None:
    spec = spec_of(lambda p: np.ones((len(p), 3), np.float32), name="e", task="embed",
                   output="FLOAT[3]")
    assert answers(spec, PICTURES) == [[1.0, 1.0, 1.0]] * 3
    wrong = spec_of(lambda p: np.ones((len(p), 2)), name="e", task="embed", output="FLOAT[3]")
    with pytest.raises(ModelOutputError, match=r"model 'e' gave an array of shape \(2,\)"):
        answers(wrong, PICTURES)


def test_whole_batches_of_values() -> None:
    spec = spec_of(lambda v: np.array(v) * 2, name="p", task="predict", input="INTEGER",
                   output="INTEGER")
    doubled = answers(spec, [1, 2])
    assert doubled == [2, 4]
    assert all(type(value) is int for value in doubled)
    assert answers(spec, []) == []


@pytest.mark.parametrize("answer, message", [
    (["dark", "light"], "model 'c' gave 2 answers for 3 inputs"),
    (["dark"] * 4, "model 'c' gave 4 answers for 3 inputs"),
    (np.zeros((2, 2)), "model 'c' gave 2 answers for 3 inputs"),
    (["dark", None, "dark"], r"model 'c' gave no answer \(None\) \(input 1 of 3\)"),
    (None, "answered a batch with a NoneType"),
    ("dark", "answered a batch with a str"),
    ({"dark": 1.0}, "answered a batch with a dict"),
    (np.float32(1), "answered a batch with a"),
    (["dark", "dark", "drak"], r"the label 'drak', which is not among its 2 labels \(input 2"),
    ([{"dark": 1}, {"lite": 1}, "dark"], r"'lite', which is not among its 2 labels \(input 1"),
    ([{}, "dark", "dark"], r"gave no label at all \(input 0"),
    (["dark", [0.5], "dark"], r"gave 1 scores rather than 2 \(input 1"),
    (np.zeros((3, 5)), r"an array of shape \(5,\) rather than 2 scores \(input 0"),
    (np.zeros(3), r"gave a float rather than 2 scores \(input 0"),
    ([[1, 0], [3.5, -2], [1, 0]], r"the score 3.5, which is not between 0 and 1 \(input 1"),
    ([[1, 0], [float("nan"), 0], [1, 0]], r"gave nan where a number belongs \(input 1"),
    ([[1, 0], ["x", 0], [1, 0]], r"gave 'x' where a number belongs \(input 1"),
])
def test_wrong_classifications(answer: Any, message: str) -> None:
    with pytest.raises(ModelOutputError, match=message) as raised:
        answers(classify(lambda _: answer), PICTURES)
    assert raised.value.model == "c"


@pytest.mark.parametrize("answer, message", [
    ([("dark", 0.5, 0, 0, 1)], "a detection of 5 values rather than label, score, x1"),
    ([{"label": "dark"}], "a detection with the keys label rather than label, score"),
    ([("bird", 0.5, 0, 0, 1, 1)], "the label 'bird', which is not among its 1 labels"),
    ([("dark", 1.5, 0, 0, 1, 1)], "the score 1.5, which is not between 0 and 1"),
    ([("dark", 0.5, 2, 0, 1, 1)], "a box whose second corner is not below and right"),
    ([("dark", 0.5, 0, 0, float("inf"), 1)], "gave inf where a number belongs"),
    ("dark", "gave a str rather than a list of detections"),
    (3, "gave a int rather than a list of detections"),
    (None, r"gave no answer \(None\)"),
])
def test_wrong_detections(answer: Any, message: str) -> None:
    spec = spec_of(lambda p: [[], answer][: len(p)], name="d", task="detect", labels=["dark"])
    with pytest.raises(ModelOutputError, match=rf"^model 'd' .*{message}.*\(input 1 of 2\)$"):
        answers(spec, PICTURES[:2])


class Threshold:
    """A class that loads in __init__, on a device."""

    made: list[str] = []

    def __init__(self, device: str) -> None:
        self.made.append(device)
        self.at = 100

    def __call__(self, pictures: list[Any]) -> list[str]:
        return ["light" if picture.mean() > self.at else "dark" for picture in pictures]


def test_a_class_is_made_once_a_worker() -> None:
    spec = classify(Threshold)
    assert Threshold.made == []
    loaded = spec.load("cpu")
    for _ in range(2):
        assert [a["label"] for a in loaded.infer(PICTURES)] == ["dark", "light", "dark"]
    assert Threshold.made == ["cpu"]


def test_a_spec_travels() -> None:
    spec = classify(Threshold)
    copy = pickle.loads(pickle.dumps(spec))
    assert copy.fingerprint == spec.fingerprint
    assert [a["label"] for a in answers(copy, PICTURES)] == ["dark", "light", "dark"]


@pytest.mark.parametrize("options, message", [
    ({"task": "guess"}, "task is one of 'detect', 'classify', 'predict', 'embed', not 'guess'"),
    ({"task": "classify"}, "labels=.* must list what it can see"),
    ({"task": "detect", "labels": "dark"}, "labels is a list of words, not the text 'dark'"),
    ({"task": "detect", "labels": ["a", " "]}, "' ' is no label"),
    ({"task": "detect", "labels": ["a", "A"]}, "the label 'A' is there twice"),
    ({"task": "detect", "labels": ["a"], "output": "INTEGER"}, "output of task 'detect' is fixed"),
    ({"task": "predict"}, "output='…' must say the type, as in 'BOOLEAN'"),
    ({"task": "embed", "output": "FLOAT[]"}, r"an embedding's output is FLOAT\[n\]"),
    ({"task": "predict", "output": "INTEGER", "batch_size": 0}, "batch_size is 1 or more, not 0"),
    ({"task": "predict", "output": "INTEGER", "min_score": 2}, "min_score is 0 to 1, not 2"),
    ({"task": "predict", "output": "INTEGER", "colour": 2}, "options are those of mlsql.model"),
])
def test_wrong_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ProgrammingError, match=message):
        spec_of(lambda values: values, name="m", **options)


def test_what_is_no_model() -> None:
    with pytest.raises(ProgrammingError, match="a lambda has no name"):
        spec_of(lambda values: values, task="predict", output="INTEGER")
    with pytest.raises(ProgrammingError, match="a model is a callable, not a int"):
        spec_of(3, task="predict", output="INTEGER")  # type: ignore[arg-type]


# -- fingerprints: `compiled` makes functions as a user's module would hold them --


def compiled(source: str, name: str = "f") -> Any:
    module = types.ModuleType("users_module")
    exec(source, module.__dict__)
    return getattr(module, name)


def fingerprint(function: Any, **options: Any) -> str:
    return spec_of(function, name="m", task="predict", output="INTEGER", **options).fingerprint


SOURCE = """
import math, re, functools, logging
LEVEL = 3
LOG = logging.getLogger('users')
WORD = re.compile('a+')

def helper(x):
    return x + 1

class Base:
    scale = 2

class Net(Base):
    def __init__(self):
        self.weights = [1, 2]
    def __call__(self, xs):
        return [helper(x) * self.scale for x in xs]

def f(xs, *, k=2):
    LOG.debug('called')
    return [helper(x) + LEVEL + k + math.floor(x) for x in xs if WORD and x not in {7, 8}]

def outer(n):
    def inner(xs):
        return [x + n for x in xs]
    return inner

bound = Net().__call__
net = Net()
part = functools.partial(f, k=5)
cached = functools.lru_cache(f)
closed = outer(4)
"""


@pytest.mark.parametrize("name", ["f", "Net", "bound", "net", "part", "cached", "closed"])
def test_the_same_code_has_the_same_fingerprint(name: str) -> None:
    moved = "\n\n\n" + SOURCE
    assert fingerprint(compiled(SOURCE, name)) == fingerprint(compiled(moved, name))


@pytest.mark.parametrize("name, old, new", [
    ("f", "x + 1", "x + 2"), ("f", "LEVEL = 3", "LEVEL = 4"), ("f", "k=2", "k=3"),
    ("f", "floor", "ceil"), ("f", "{7, 8}", "{7, 9}"), ("f", "'a+'", "'b+'"),
    ("Net", "scale = 2", "scale = 3"), ("Net", "[1, 2]", "[1, 3]"), ("Net", "x + 1", "x - 1"),
    ("bound", "[1, 2]", "[1, 3]"), ("bound", "x + 1", "x - 1"), ("net", "[1, 2]", "[1, 3]"),
    ("net", "scale = 2", "scale = 3"), ("part", "k=5", "k=6"), ("part", "x + 1", "x + 2"),
    ("cached", "x + 1", "x + 2"), ("closed", "outer(4)", "outer(5)"), ("closed", "x + n", "x * n"),
])
def test_edited_code_has_another_fingerprint(name: str, old: str, new: str) -> None:
    assert old in SOURCE
    edited = SOURCE.replace(old, new)
    assert fingerprint(compiled(SOURCE, name)) != fingerprint(compiled(edited, name))


def test_what_else_makes_another_fingerprint() -> None:
    f = compiled(SOURCE)
    prints = {fingerprint(f), fingerprint(f, version="2"), fingerprint(f, input="VARCHAR"),
              spec_of(f, name="m", task="predict", output="BIGINT").fingerprint}
    assert len(prints) == 4
    assert spec_of(f, name="n", task="predict", output="INTEGER").fingerprint == fingerprint(f)
    light = classify(Threshold, min_score=0.1).fingerprint
    assert light == classify(Threshold).fingerprint
    other = spec_of(Threshold, name="c", task="classify", labels=["light", "dark"])
    assert other.fingerprint != light


def test_arrays_count_by_content() -> None:
    def with_array(array: np.ndarray) -> Any:
        return lambda xs: [x + array.sum() for x in xs]

    same = [fingerprint(with_array(np.arange(5))) for _ in range(2)]
    assert same[0] == same[1]
    assert fingerprint(with_array(np.arange(6))) != same[0]
    assert fingerprint(with_array(np.arange(5, dtype=np.float32))) != same[0]


def test_what_cannot_be_told_is_never_found_again() -> None:
    held = object()
    holding = [fingerprint(lambda xs: [held for _ in xs]) for _ in range(2)]
    assert holding[0] != holding[1]


def test_functions_that_call_each_other_end() -> None:
    source = "def f(xs): return g(xs)\ndef g(xs): return f(xs[1:]) if xs else xs"
    assert fingerprint(compiled(source)) == fingerprint(compiled(source))
    assert re.fullmatch("[0-9a-f]{32}", fingerprint(compiled(source)))
