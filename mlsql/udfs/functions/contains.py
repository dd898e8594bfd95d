"""CONTAINS."""

from __future__ import annotations

from sqlglot import exp

from mlsql.udfs.detections import contains
from mlsql.udfs.function import Call, Models, function


@function("CONTAINS", "media label", "BOOLEAN", options="min_score min_count model", shadows=True)
def contains_label(call: Call, models: Models) -> exp.Expr:
    """Whether the picture shows the label: score at least min_score, things at least min_count."""
    return contains(call, models, [call.arguments[1]], exp.And)
