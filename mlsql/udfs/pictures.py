"""Pictures made of pictures, in SQL: a handle that carries the recipe, not the pixels.

`data` of such a handle begins with one line for each step, the last step first, and behind them
come the bytes of the picture that they start from, if it has any; else `uri` and `frame` name it.
Making one decodes nothing, and equal recipes over one picture are equal handles.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from mlsql.errors import ProgrammingError
from mlsql.udfs.function import Call
from mlsql.udfs.template import expression

MARK = "mlsql:picture/1 "
"""What a step's line begins with; then comes the step as JSON. No picture format begins so."""

_MADE = (
    "list_transform([struct_pack(picture := :picture, step := struct_pack({step}))], "
    "lambda mlsql_p: CASE WHEN mlsql_p.picture IS NOT NULL{given} THEN struct_pack("
    "uri := mlsql_p.picture.uri, frame := mlsql_p.picture.frame, data := "
    f"encode('{MARK}' || CAST(to_json(mlsql_p.step) AS VARCHAR) || chr(10)) || "
    "coalesce(mlsql_p.picture.data, ''::BLOB)) END)[1]")


def made(what: str, picture: exp.Expr, parameters: Mapping[str, exp.Expr]) -> exp.Expr:
    """The handle of what `exec.media.recipe` makes of a picture; NULL where any part is."""
    step = "".join(f", {name} := :{name}" for name in parameters)
    given = "".join(f" AND mlsql_p.step.{name} IS NOT NULL" for name in parameters)
    template = _MADE.format(step=f"todo := '{what}'{step}", given=given)
    return expression(template, picture=picture, **parameters)


def number(call: Call, node: exp.Expr, name: str, kind: str = "DOUBLE") -> exp.Expr:
    """A number among a call's arguments; a text literal is an error now rather than later."""
    if isinstance(node, exp.Literal) and node.is_string:
        raise ProgrammingError(f"{call.function.name}: {name} is a number, not {node.this!r}")
    return exp.cast(node.copy(), kind, dialect="duckdb")


def side(call: Call, node: exp.Expr, name: str) -> exp.Expr:
    """A width or height in pixels; a literal under 1 is an error now rather than later."""
    written = node.this if isinstance(node, exp.Neg) else node
    if isinstance(written, exp.Literal) and not written.is_string:
        value = float(written.this) * (-1 if isinstance(node, exp.Neg) else 1)
        if value < 1:
            raise ProgrammingError(
                f"{call.function.name}: {name} is 1 or more pixels, not {value:g}")
    return number(call, node, name, "INTEGER")
