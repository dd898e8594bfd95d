"""CONTAINS_ALL."""

from __future__ import annotations

from sqlglot import exp

from mlsql.udfs.detections import contains
from mlsql.udfs.function import Call, Models, function
from mlsql.udfs.labels import listed


@function("CONTAINS_ALL", "media labels", "BOOLEAN", options="min_score min_count model",
          example="SELECT frame_id FROM 'bikes.mp4'\n"
                  "WHERE frame_id IN (10, 120) AND CONTAINS_ALL(frame, ['person', 'bicycle'])")
def contains_all(call: Call, models: Models) -> exp.Expr:
    """Whether the picture shows all of the labels, a list written out in the statement."""
    return contains(call, models, listed(call, 1), exp.And)
