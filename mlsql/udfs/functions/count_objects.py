"""COUNT_OBJECTS."""

from __future__ import annotations

from sqlglot import exp

from mlsql.udfs.detections import count_of, labels_given
from mlsql.udfs.function import Call, Models, function
from mlsql.udfs.labels import model_of


@function("COUNT_OBJECTS", "media label", "INTEGER", options="min_score model",
          example="SELECT avg(COUNT_OBJECTS(frame, 'car')) AS cars FROM 'bikes.mp4' WHERE keyframe")
def count_objects(call: Call, models: Models) -> exp.Expr:
    """How many things of the label the picture shows, each with a score of at least min_score."""
    media, label = call.arguments
    spec = model_of(call, models, "detect", labels_given(label))
    count = count_of(call, spec, media, label)
    return exp.cast(count, "INTEGER", copy=False)
