"""SCORE."""

from __future__ import annotations

from sqlglot import exp

from mlsql.udfs.detections import labels_given, score_of
from mlsql.udfs.function import Call, Models, function
from mlsql.udfs.labels import model_of


@function("SCORE", "media label", "DOUBLE", options="model",
          example="SELECT frame_id, SCORE(frame, 'bicycle') AS sure FROM 'bikes.mp4'\n"
                  "WHERE frame_id IN (10, 120) ORDER BY sure DESC")
def score(call: Call, models: Models) -> exp.Expr:
    """How sure the model is, 0 to 1, that the picture shows the label."""
    media, label = call.arguments
    spec = model_of(call, models, None, labels_given(label))
    return score_of(spec, media, label)
