"""CLASSIFY."""

from __future__ import annotations

from sqlglot import exp

from mlsql.udfs.detections import labels_given
from mlsql.udfs.function import Call, Models, function, output
from mlsql.udfs.labels import listed, model_of, positions
from mlsql.udfs.spec import ModelSpec
from mlsql.udfs.template import expression


def classified(call: Call, models: Models) -> exp.Expr:
    """The best of the labels that a call gives, or of the model's own."""
    media = call.arguments[0]
    if call.argument(1) is None:
        spec = model_of(call, models, "classify", [])
        return expression("struct_extract(:out, 'label')", out=output(spec, media))
    labels = listed(call, 1)
    spec = model_of(call, models, "classify", labels_given(*labels))
    return _best_of(spec, media, labels)


def _best_of(
    spec: ModelSpec, media: exp.Expr, labels: list[exp.Expr]
) -> exp.Expr:
    choices = exp.Array(expressions=[
        expression("struct_pack(word := :word, places := :places)",
                   word=label, places=positions(label, spec)) for label in labels])
    return expression(
        "list_transform([(:out)], lambda mlsql_o: CASE WHEN mlsql_o IS NOT NULL THEN "
        "list_reduce(list_transform(:choices, lambda mlsql_c: struct_pack(word := mlsql_c.word, "
        "score := list_sum(list_select(CAST(mlsql_o.scores AS DOUBLE[]), mlsql_c.places)))), "
        "lambda mlsql_a, mlsql_b: CASE WHEN mlsql_b.score > mlsql_a.score THEN mlsql_b "
        "ELSE mlsql_a END).word END)[1]", out=output(spec, media), choices=choices)


@function("CLASSIFY", "media [labels]", "VARCHAR", options="model",
          example="SELECT CLASSIFY(frame) AS kind, CLASSIFY(frame, ['moped', 'bicycle']) AS this\n"
                  "FROM 'bikes.mp4' WHERE frame_id = 120")
def classify(call: Call, models: Models) -> exp.Expr:
    """The label that fits the picture best, of the model's own or of the list given."""
    return classified(call, models)
