"""Which model embeds what, and vectors in SQL."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp

from mlsql.errors import ProgrammingError
from mlsql.udfs.function import Call, Models, output
from mlsql.udfs.labels import model_of
from mlsql.udfs.media import fitted, is_media, to_text
from mlsql.udfs.registry import shipped
from mlsql.udfs.spec import ModelSpec

_VECTOR = re.compile(r"(FLOAT|DOUBLE|REAL|DECIMAL\(.*\)|\w*INT\w*)\[\d*\]")


def is_vector(type: str | None) -> bool:
    """Whether a DuckDB type is a list or array of numbers."""
    return type is not None and _VECTOR.fullmatch(type) is not None


def takes(spec: ModelSpec, type: str | None) -> bool:
    """Whether a model embeds arguments of a DuckDB type as they are."""
    if is_media(type) or type in (None, "BLOB"):
        return spec.takes_media
    return not spec.takes_media and (type == spec.input_type or (
        spec.input_type == "VARCHAR" and str(type).startswith("ENUM")))


def embedder(call: Call, models: Models, type: str | None) -> ModelSpec:
    """The model of the option `model`, or the only one for such arguments; one of mlsql's first."""
    if "model" in call.options:
        return model_of(call, models, "embed", [])
    return one_of(call, [spec for spec in models.embedders() if takes(spec, type)], type)


def one_of(call: Call, fitting: Sequence[ModelSpec], type: str | None) -> ModelSpec:
    """The only model of several, or the one that comes with mlsql; else an error says why none."""
    own = [spec for spec in fitting if any(spec is each for each in shipped())] or list(fitting)
    if len(own) == 1:
        return own[0]
    name = call.function.name
    if own:
        raise ProgrammingError(f"{name}: {' and '.join(repr(s.name) for s in own)} embed it: say "
                               f"which, as in model => '{own[0].name}'")
    if type == "VARCHAR":
        raise ProgrammingError(
            f"{name}: no model that embeds text is registered (CREATE MODEL, or mlsql.model with "
            "input='VARCHAR'); if the text is a path, IMAGE(path) is its picture")
    raise ProgrammingError(f"{name}: no model embeds {type}")


def embedded(spec: ModelSpec, node: exp.Expr, type: str | None) -> exp.Expr:
    """The vector of an expression."""
    return output(spec, fitted(spec, node, type))


def space_of(spec: ModelSpec) -> str:
    """The space of a model's vectors: its own, unless it was said to share one."""
    return spec.space or spec.name


def pair(call: Call, models: Models) -> list[exp.Expr]:
    """Two arguments as vectors of one space."""
    sides = list(zip(call.arguments[:2], call.types[:2], strict=True))
    asked = [type for _, type in sides if not is_vector(type) and type not in ("NULL", '"NULL"')]
    chosen = _chosen(call, models, asked)
    vectors = []
    for node, type in sides:
        if is_vector(type) or type in ("NULL", '"NULL"'):
            vectors.append(node.copy())
        else:
            spec = next((s for s in chosen if takes(s, type)), None)
            if spec is None:
                raise ProgrammingError(f"{call.function.name}: {', '.join(s.name for s in chosen)} "
                                       f"cannot look at {to_text(node)}, which is {type}")
            vectors.append(embedded(spec, node, type))
    return vectors


def _chosen(call: Call, models: Models, types: Sequence[str | None]) -> list[ModelSpec]:
    """The models for arguments of these types, all of one space."""
    if not types:
        return []
    if "model" in call.options:
        named = model_of(call, models, "embed", [])
        return [named, *(s for s in models.embedders() if space_of(s) == space_of(named))]
    first = [spec for spec in models.embedders() if takes(spec, types[0])]
    if len(types) == 1 or any(takes(spec, types[1]) for spec in first):
        return [one_of(call, first, types[0])]
    pairs = [(one, other) for one in first for other in models.embedders()
             if takes(other, types[1]) and space_of(one) == space_of(other)]
    if len(pairs) != 1:
        raise ProgrammingError(
            f"{call.function.name}: to compare {types[0] and _word(types[0])} with "
            f"{_word(types[1])} takes two models of one space, and there "
            + ("are several: say which with model =>" if pairs else
               "are none: register them with space => 'a name' for both"))
    return list(pairs[0])


def _word(type: str | None) -> str:
    return "a picture" if type is None or is_media(type) or type == "BLOB" else \
        "a text" if type == "VARCHAR" else type
