"""Labels in SQL: bound now where they are literals, looked up row by row where they are not."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from mlsql.errors import ProgrammingError
from mlsql.udfs import vocabulary
from mlsql.udfs.function import Call, Models
from mlsql.udfs.spec import ModelSpec
from mlsql.udfs.template import expression


def literal_text(node: exp.Expr | None) -> str | None:
    """The text of a string literal, else None."""
    return str(node.this) if isinstance(node, exp.Literal) and node.is_string else None


def literal_texts(node: exp.Expr | None) -> list[str] | None:
    """The texts of a list of string literals, else None."""
    if not isinstance(node, exp.Array):
        return None
    texts = [literal_text(item) for item in node.expressions]
    return None if None in texts else [t for t in texts if t is not None]


def texts(values: Sequence[str]) -> exp.Expr:
    """A list literal of strings."""
    return exp.Array(expressions=[exp.Literal.string(v) for v in values])


def model_of(call: Call, models: Models, task: str | None, labels: Sequence[str]) -> ModelSpec:
    """The model of the option `model`, else the one the rule chooses for the labels."""
    option = call.options.get("model")
    if option is None:
        for label in labels:
            refuse_blank(label)
        return models.default(task, labels)
    name = literal_text(option)
    if name is None:
        raise ProgrammingError(f"{call.function.name}: model => takes a model's name in quotes")
    spec = models.named(name)
    if task is not None and spec.task != task:
        raise ProgrammingError(
            f"{call.function.name} wants a model for {task!r}; {spec.name} is for {spec.task!r}")
    return spec


def refuse_blank(label: str) -> None:
    """An empty or blank label is an error, never an empty answer."""
    if not label.strip():
        raise ProgrammingError("a label must not be empty")


def covered(label: exp.Expr, spec: ModelSpec) -> exp.Expr:
    """The list of the model's labels that a label covers, as an SQL list."""
    word = literal_text(label)
    if isinstance(label, exp.Literal) and word is None:
        raise ProgrammingError(f"a label is a word in quotes, not {label.this}")
    if word is not None:
        return texts(vocabulary.resolve(word, spec))
    return _by_row(label, spec, {w: texts(ls) for w, ls in vocabulary.words(spec).items()})


def positions(label: exp.Expr, spec: ModelSpec) -> exp.Expr:
    """The same as positions (from 1) in the model's list of labels."""
    word = literal_text(label)
    if word is not None:
        return _places(vocabulary.resolve(word, spec), spec)
    return _by_row(label, spec, {w: _places(ls, spec) for w, ls in vocabulary.words(spec).items()})


def _places(labels: Sequence[str], spec: ModelSpec) -> exp.Expr:
    place = {label: i + 1 for i, label in enumerate(spec.labels)}
    return exp.Array(expressions=[exp.Literal.number(place[label]) for label in labels])


def _by_row(
    label: exp.Expr, spec: ModelSpec, known: dict[str, exp.Expr]
) -> exp.Expr:
    """A look-up in the whole vocabulary: an unknown label ends the statement as a literal would."""
    # As text: planning copies it many times, and a vocabulary has hundreds of words.
    words = exp.Var(this=texts(list(known)).sql("duckdb"))
    lists = exp.Var(this=exp.Array(expressions=list(known.values())).sql("duckdb"))
    where = exp.Literal.string(f" for {spec.name} ({len(spec.labels)} labels)")
    return expression(
        "CASE WHEN :label IS NOT NULL THEN coalesce("
        ":lists[list_position(:words, lower(trim(:label)))], "
        "error('unknown label ' || chr(39) || :label || chr(39) || :tail)) END",
        label=label, words=words, lists=lists, tail=where)


def listed(call: Call, position: int) -> list[exp.Expr]:
    """The labels of a list that is written out in the statement; an empty one is an error."""
    given = call.argument(position)
    if not isinstance(given, exp.Array) or not given.expressions:
        raise ProgrammingError(
            f"{call.function.name}: {call.function.arguments[position]} is a list of labels "
            "written out, as in ['bird', 'boat']")
    return list(given.expressions)
