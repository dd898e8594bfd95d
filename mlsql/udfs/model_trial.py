"""A first run of a model from a file, on made-up inputs: does what was said of it hold?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from mlsql.errors import Error, ProgrammingError
from mlsql.udfs.model_files import Given, file_spec
from mlsql.udfs.network_outputs import found_way

if TYPE_CHECKING:
    from mlsql.udfs.file_model import FileModel
    from mlsql.udfs.spec import ModelSpec


def tried(name: str, path: str, sha256: str, options: Given, device: str) -> dict[str, Any]:
    """The options with what a trial found: what scores are, a vector's length, a fixed batch.

    What cannot be loaded, run or read for its task is a ProgrammingError that says why.
    """
    try:
        return _tried(name, path, sha256, dict(options), device)
    except ProgrammingError:
        raise
    except Exception as error:  # a network raises what it likes
        said = str(error) if isinstance(error, Error) else _short(error)
        raise ProgrammingError(f"CREATE MODEL {name}: {said}") from error


def _tried(
    name: str, path: str, sha256: str, options: dict[str, Any], device: str
) -> dict[str, Any]:
    from mlsql.udfs.file_model import load

    if options["task"] == "embed":
        options["vector"] = 1  # until it is known
    spec = file_spec(name, path, sha256, options)
    value = _made_up(spec)
    if value is None:
        return options
    model = load(spec, device)
    outputs, fixed = _outputs(model, [model.prepare(value)] * 2)
    if fixed:
        options["fixed_batch"] = 1
    if spec.task == "classify":
        _classify(model, spec, value, options)
    elif spec.task == "embed":
        options["vector"] = len(outputs[0])
    spec = file_spec(name, path, sha256, options)
    _check(spec, load(spec, device), value)
    return options


def _outputs(model: FileModel, prepared: list[Any]) -> tuple[list[Any], bool]:
    """What it says of two inputs, and whether it takes but one at a time."""
    try:
        return model.outputs(prepared), False
    except ProgrammingError:
        raise
    except Exception as error:
        try:
            return model.outputs(prepared[:1]), True
        except Exception:
            raise error from None


def _classify(model: FileModel, spec: ModelSpec, value: Any, options: dict[str, Any]) -> None:
    if "scores" not in options:
        raw = load_raw(model, value)
        options["scores"] = found_way(raw)
    outputs = model.outputs([model.prepare(value)])
    if len(outputs[0]) != len(spec.labels):
        raise ProgrammingError(f"CREATE MODEL {spec.name}: labels has {len(spec.labels)} words, "
                               f"and the file answers with {len(outputs[0])} scores")


def load_raw(model: FileModel, value: Any) -> Any:
    """The one array that a network answers a single input with, as it is."""
    import numpy as np

    from mlsql.udfs.network_outputs import only

    said = model.network(np.stack([model.prepare(value)[0]]))
    return only(said, model.said.get("head"), 1)


def _check(spec: ModelSpec, model: FileModel, value: Any) -> None:
    """Whether an answer is of the type that the model's outputs will have."""
    from mlsql.udfs.types import arrow_array, arrow_type

    answers = model.infer([model.prepare(value)])
    try:
        arrow_array(answers, arrow_type(spec.output_type))
    except TypeError as error:
        raise ProgrammingError(
            f"CREATE MODEL {spec.name}: its answer {str(answers[0])[:60]} is no "
            f"{spec.output_type}") from error


def _made_up(spec: ModelSpec) -> Any:
    """A picture of noise, or zeros; None where the type does not say how many."""
    import numpy as np

    from mlsql.udfs.file_model import size_of

    if spec.takes_media:
        width, height = size_of(spec)
        return np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)
    kind = re.fullmatch(r"(?i)\s*(TINYINT|SMALLINT|INTEGER|BIGINT|REAL|FLOAT|DOUBLE)"
                        r"((?:\[\d*\])*)\s*", spec.input_type)
    if kind is None:
        raise ProgrammingError(
            f"CREATE MODEL {spec.name}: a file takes pictures or numbers, not {spec.input_type}; "
            "for text, register a Python model that has a tokenizer")
    sides = re.findall(r"\[(\d*)\]", kind[2])
    return None if "" in sides else np.zeros([int(n) for n in reversed(sides)], np.float32)


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text if len(text) <= 300 else text[:297] + '...'}"
