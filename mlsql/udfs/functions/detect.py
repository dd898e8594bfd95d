"""DETECT."""

from __future__ import annotations

from sqlglot import exp

from mlsql.udfs.detections import for_label, labels_given, threshold
from mlsql.udfs.function import Call, Models, function, output
from mlsql.udfs.labels import covered, listed, model_of
from mlsql.udfs.spec import DETECTIONS_TYPE
from mlsql.udfs.template import expression


@function("DETECT", "media [labels]", DETECTIONS_TYPE, options="min_score model",
          example="SELECT unnest(DETECT(frame, ['person', 'bicycle']), recursive := true)\n"
                  "FROM 'bikes.mp4' WHERE frame_id = 120")
def detect(call: Call, models: Models) -> exp.Expr:
    """The things in the picture, best first: label, score, and box in pixels of the upright one."""
    media = call.arguments[0]
    labels = listed(call, 1) if call.argument(1) is not None else []
    spec = model_of(call, models, "detect", labels_given(*labels))
    least = threshold(call, spec)
    if not labels:
        return expression("list_filter(:out, lambda mlsql_d: mlsql_d.score >= :least)",
                          out=output(spec, media), least=least)
    wanted = expression("flatten(:lists)", lists=exp.Array(
        expressions=[covered(label, spec) for label in labels]))
    found = expression(
        "list_filter(:out, lambda mlsql_d: list_contains(:labels, mlsql_d.label) "
        "AND mlsql_d.score >= :least)", out=output(spec, media), labels=wanted, least=least)
    for label in labels:
        found = for_label(label, found)
    return found
