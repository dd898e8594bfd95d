"""The page of the SQL that mlsql adds to DuckDB's."""

from __future__ import annotations

from mlsql.docs.statements import STATEMENTS, Form
from mlsql.docs.text import NOTICE, code, sentence, table
from mlsql.exec.tables import MEANINGS
from mlsql.udfs.function import Function, functions
from mlsql.udfs.function_options import meaning_of
from mlsql.udfs.model_files import OPTIONS, Option
from mlsql.udfs.runtimes import runtimes

_START = f"""\
# SQL reference

{NOTICE}

mlsql is DuckDB's SQL, and what is on this page. The examples read `bikes.mp4`, the street video
that `mlsql demo` uses.
"""

_FUNCTIONS = """\
## Functions

Arguments come first, in their order; options come after them, by name: `min_score => 0.6`. Where an
argument is NULL, so is the answer. *media* is a frame or image, or what `IMAGE` makes of a path or
a BLOB; a VARCHAR is taken for a path and a BLOB for the bytes of a picture. *label* is a word that
the model knows, in quotes or from a column.

A picture that `CROP`, `RESIZE`, `THUMBNAIL` or `ANNOTATE` gives is a handle too: it says what is to
be made of which picture, and nothing is decoded before something looks at it. It can be kept in a
table, compared, and given to any function of this page. `ENCODE` makes bytes of it, which any
program reads.
"""


def sql_page() -> str:
    """docs/sql.md."""
    found = sorted(functions().values(), key=lambda f: f.name)
    parts = [_START, _forms("Sources"), _FUNCTIONS, _overview(found), *map(_function, found),
             _forms("Statements"), _create_options(), _tables()]
    return "\n".join(parts)


def _overview(found: list[Function]) -> str:
    rows = [[f"[`{f.signature}`](#{f.name.lower()})", _returns(f)] for f in found]
    return table(["function", "returns"], rows) + "\n"


def _returns(function: Function) -> str:
    short = {"STRUCT(uri VARCHAR, frame BIGINT, data BLOB)": "a picture"}.get(function.returns)
    plain = " " in function.returns and "(" not in function.returns
    return short or (function.returns if plain else f"`{function.returns}`")


def _function(function: Function) -> str:
    parts = [f"### {function.name}\n", code(function.signature, "text") + "\n",
             f"Returns {_returns(function)}. {sentence(function.meaning)}\n"]
    if function.details:
        parts.append(function.details + "\n")
    if function.options:
        rows = [[f"`{name}`", *meaning_of(function.name, name)] for name in function.options]
        parts.append(table(["option", "meaning", "default"], rows) + "\n")
    if function.example:
        parts.append(code(function.example) + "\n")
    return "\n".join(parts)


def _forms(chapter: str) -> str:
    return f"## {chapter}\n\n" + "\n".join(
        _form(form) for form in STATEMENTS if form.chapter == chapter)


def _form(form: Form) -> str:
    shown = code(form.form, "text")
    parts = [f"### {form.title}\n", shown + "\n", form.meaning + "\n"]
    return "\n".join([*parts, code(form.example) + "\n"] if form.example else parts)


def _create_options() -> str:
    files = [[f"`{r.name}`", sentence(r.meaning)] for r in runtimes().values()]
    rows = [[f"`{o.name}`", _takes(o), _default(o), sentence(o.meaning)] for o in OPTIONS.values()]
    return ("### Options of CREATE MODEL\n\n"
            + table(["option", "takes", "default", "meaning"], rows)
            + "\n\n" + table(["runtime", "files"], files) + "\n")


def _takes(option: Option) -> str:
    return ", ".join(f"`'{word}'`" for word in option.choices) or option.takes


def _default(option: Option) -> str:
    if option.default is None:
        return ""
    return f"`'{option.default}'`" if isinstance(option.default, str) else f"`{option.default:g}`"


def _tables() -> str:
    rows = [[f"`{form}`", sentence(meaning)] for form, meaning in MEANINGS.items()]
    return "## Table functions\n\n" + table(["function", "rows"], rows) + "\n"
