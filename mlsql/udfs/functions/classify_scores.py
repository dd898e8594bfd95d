"""CLASSIFY_SCORES."""

from __future__ import annotations

from sqlglot import exp

from mlsql.udfs.function import Call, Models, function, output
from mlsql.udfs.labels import model_of, texts
from mlsql.udfs.template import expression


@function("CLASSIFY_SCORES", "media", "MAP(VARCHAR, DOUBLE)", options="model",
          example="SELECT CLASSIFY_SCORES(frame)['mountain bike'] AS bike\n"
                  "FROM 'bikes.mp4' WHERE frame_id = 120")
def classify_scores(call: Call, models: Models) -> exp.Expr:
    """Every label of the classifier with its probability."""
    spec = model_of(call, models, "classify", [])
    return expression(
        "list_transform([(:out)], lambda mlsql_o: CASE WHEN mlsql_o IS NOT NULL THEN "
        "map(:labels, CAST(mlsql_o.scores AS DOUBLE[])) END)[1]",
        out=output(spec, call.arguments[0]), labels=texts(spec.labels))
