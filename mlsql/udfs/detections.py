"""What detectors' and classifiers' outputs say of a label: the pieces that functions share.

Inside a lambda no subquery may stand, and a plan puts one where an output was. So an output
always stands outside: [output] is mapped over once, which also evaluates it once.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from mlsql.errors import ProgrammingError
from mlsql.udfs.function import Call, Models, output
from mlsql.udfs.labels import covered, literal_text, model_of, positions, refuse_blank
from mlsql.udfs.spec import ModelSpec
from mlsql.udfs.template import expression


def labels_given(*labels: exp.Expr) -> list[str]:
    """The literal ones among labels."""
    given = [text for text in map(literal_text, labels) if text is not None]
    for label in given:
        refuse_blank(label)
    return given


def threshold(call: Call, spec: ModelSpec) -> exp.Expr:
    """The option min_score, else the model's own default; one under its floor is an error."""
    option = call.options.get("min_score")
    if option is None:
        return exp.Literal.number(repr(spec.min_score))
    number = option.this if isinstance(option, exp.Neg) else option
    if isinstance(number, exp.Literal) and not number.is_string:
        value = float(number.this) * (-1 if isinstance(option, exp.Neg) else 1)
        if not spec.score_floor <= value <= 1:
            raise ProgrammingError(
                f"{call.function.name}: min_score {value:g} is outside "
                f"{spec.score_floor:g} to 1, the scores that {spec.name} gives")
    return option


def count_of(
    call: Call, spec: ModelSpec, media: exp.Expr, label: exp.Expr
) -> exp.Expr:
    """How many things a detector sees that the label covers."""
    return for_label(label, expression(
        "list_transform([(:out)], lambda mlsql_o: len(list_filter(list_filter(mlsql_o, "
        "lambda mlsql_d: mlsql_d.score >= :least), "
        "lambda mlsql_d: list_contains(:labels, mlsql_d.label))))[1]",
        out=output(spec, media), labels=covered(label, spec), least=threshold(call, spec)))


def for_label(label: exp.Expr, answer: exp.Expr) -> exp.Expr:
    """The answer, or NULL where a label that is no literal is NULL."""
    if isinstance(label, exp.Literal):
        return answer
    return expression("CASE WHEN :label IS NOT NULL THEN :answer END", label=label, answer=answer)


def score_of(spec: ModelSpec, media: exp.Expr, label: exp.Expr) -> exp.Expr:
    """The score, 0 to 1, that what the label covers is there."""
    return for_label(label, _score(spec, media, label))


def _score(spec: ModelSpec, media: exp.Expr, label: exp.Expr) -> exp.Expr:
    if spec.task == "detect":
        return expression(
            "list_reduce(list_transform(:out, lambda mlsql_d: "
            "CASE WHEN list_contains(:labels, mlsql_d.label) THEN mlsql_d.score ELSE 0.0::DOUBLE "
            "END), lambda mlsql_a, mlsql_b: greatest(mlsql_a, mlsql_b), 0.0::DOUBLE)",
            out=output(spec, media), labels=covered(label, spec))
    if spec.task == "classify":
        # Probabilities are FLOATs: their sum may come out a little over 1. LEAST skips a NULL.
        return expression(
            "list_reduce([list_sum(list_select("
            "CAST(struct_extract(:out, 'scores') AS DOUBLE[]), :places)), 1.0::DOUBLE], "
            "lambda mlsql_a, mlsql_b: CASE WHEN mlsql_b < mlsql_a THEN mlsql_b ELSE mlsql_a END)",
            out=output(spec, media), places=positions(label, spec))
    raise ProgrammingError(f"{spec.name} (task {spec.task!r}) gives no scores for labels")


def contains(call: Call, models: Models, labels: Sequence[exp.Expr],
             joined: type[exp.Connector]) -> exp.Expr:
    """Whether the media shows all (exp.And) or any (exp.Or) of the labels.

    One model answers for all labels where one knows them all; else each label has its own.
    """
    media = call.arguments[0]
    spec = _common_model(call, models, labels)
    parts = []
    for label in labels:
        own = spec or model_of(call, models, None, labels_given(label))
        parts.append(_contains_one(call, own, media, label))
    tree = parts[0]
    for part in parts[1:]:
        tree = joined(this=tree, expression=part)
    return exp.paren(tree, copy=False) if len(parts) > 1 else tree


def _common_model(
    call: Call, models: Models, labels: Sequence[exp.Expr]
) -> ModelSpec | None:
    try:
        return model_of(call, models, None, labels_given(*labels))
    except ProgrammingError:
        if len(labels) == 1 or "model" in call.options:
            raise
        return None


def _contains_one(
    call: Call, spec: ModelSpec, media: exp.Expr, label: exp.Expr
) -> exp.Expr:
    least = call.options.get("min_count")
    if spec.task == "detect":
        count = count_of(call, spec, media, label)
        wanted = least or exp.Literal.number(1)
        return exp.paren(exp.GTE(this=count, expression=wanted.copy()), copy=False)
    if least is not None:
        raise ProgrammingError(
            f"min_count wants a detector; {spec.name} is for {spec.task!r} and counts nothing")
    score = score_of(spec, media, label)
    return exp.paren(exp.GTE(this=score, expression=threshold(call, spec).copy()), copy=False)
