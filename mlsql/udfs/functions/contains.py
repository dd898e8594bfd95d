"""CONTAINS."""

from __future__ import annotations

from sqlglot import exp

from mlsql.udfs.detections import contains
from mlsql.udfs.function import Call, Models, function


@function("CONTAINS", "media label", "BOOLEAN", options="min_score min_count model", shadows=True,
          example="SELECT frame_id, ts FROM 'bikes.mp4'\n"
                  "WHERE keyframe AND CONTAINS(frame, 'vehicle', min_score => 0.6)")
def contains_label(call: Call, models: Models) -> exp.Expr:
    """Whether the picture shows the label: score at least min_score, things at least min_count.

    A label is a word and means what it covers: 'vehicle' is car, truck, bus and more. An unknown
    one is an error with the nearest words. Given text or a list, CONTAINS is DuckDB's own function.
    """
    return contains(call, models, [call.arguments[1]], exp.And)
