"""Media in SQL: what counts as a picture, and how a path or a BLOB becomes one."""

from __future__ import annotations

import re

from sqlglot import exp

from mlsql.errors import ProgrammingError
from mlsql.udfs.spec import IMAGE_TYPE, ModelSpec
from mlsql.udfs.template import expression

_SHAPE = re.compile(r'STRUCT\("?uri"? VARCHAR, "?frame"? (BIGINT|INTEGER), "?data"? BLOB\)', re.I)


_NESTED = ("STRUCT", "MAP", "UNION")


def to_text(node: exp.Expr) -> str:
    """The SQL of an expression, for a message."""
    return node.sql(dialect="duckdb")


def is_media(type: str | None) -> bool:
    """Whether a DuckDB type is that of a picture."""
    return type is not None and _SHAPE.fullmatch(type) is not None


def as_media(node: exp.Expr, type: str | None) -> exp.Expr | None:
    """The picture that an expression of that type stands for; None if it cannot stand for one."""
    if type is None or is_media(type):
        exact = type is None or "BIGINT" in type.upper()
        return node.copy() if exact else exp.cast(node.copy(), IMAGE_TYPE, dialect="duckdb")
    if type == "VARCHAR":
        return _picture(node, uri=node)
    if type == "BLOB":
        return _picture(node, data=node)
    if type in ("NULL", '"NULL"'):
        return exp.cast(exp.null(), IMAGE_TYPE, dialect="duckdb")
    return None


def _picture(
    node: exp.Expr, *, uri: exp.Expr | None = None,
    data: exp.Expr | None = None,
) -> exp.Expr:
    return expression(
        "CASE WHEN :node IS NOT NULL THEN struct_pack("
        "uri := CAST(:uri AS VARCHAR), frame := NULL::BIGINT, data := CAST(:data AS BLOB)) END",
        node=node, uri=uri or exp.null(), data=data or exp.null())


def fitted(spec: ModelSpec, node: exp.Expr, type: str | None) -> exp.Expr:
    """An expression as the input of a model: in its declared type, so equal inputs are equal."""
    if not spec.takes_media:
        if type == spec.input_type:
            return node.copy()
        if type is not None and type.startswith(_NESTED) and \
                not spec.input_type.upper().startswith(_NESTED) and spec.input_type != "VARCHAR":
            raise ProgrammingError(
                f"{spec.name} takes {spec.input_type}: {to_text(node)} is "
                f"{'a picture' if is_media(type) else type}")
        return exp.cast(node.copy(), spec.input_type, dialect="duckdb")
    picture = as_media(node, type)
    if picture is None:
        raise ProgrammingError(f"{spec.name} looks at a picture: {to_text(node)} is {type}")
    return picture
