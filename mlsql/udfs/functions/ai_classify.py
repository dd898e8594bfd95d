"""AI_CLASSIFY."""

from __future__ import annotations

from sqlglot import exp

from mlsql.udfs.function import Call, Models, function
from mlsql.udfs.functions.classify import classified


@function("AI_CLASSIFY", "media labels", "VARCHAR", options="model",
          example="SELECT AI_CLASSIFY(frame, ['bicycle', 'sports car']) AS kind\n"
                  "FROM 'bikes.mp4' WHERE frame_id = 120")
def ai_classify(call: Call, models: Models) -> exp.Expr:
    """CLASSIFY with a list of labels, under the name that warehouses give it."""
    return classified(call, models)
