"""SIMILARITY."""

from __future__ import annotations

from sqlglot import exp

from mlsql.udfs.embeddings import pair
from mlsql.udfs.function import Call, Models, function
from mlsql.udfs.template import expression


@function("SIMILARITY", "argument other", "DOUBLE", options="model", typed=True,
          usage="SIMILARITY(a, b [, model =>])",
          example="SELECT b.frame_id, SIMILARITY(a.frame, b.frame) AS alike\n"
                  "FROM 'bikes.mp4' a, 'bikes.mp4' b\n"
                  "WHERE a.frame_id = 10 AND b.frame_id IN (12, 200)")
def similarity(call: Call, models: Models) -> exp.Expr:
    """How alike two pictures, texts or vectors are: the cosine of their vectors, -1 to 1.

    What is no vector yet is embedded. A picture and a text can be compared where two models have
    one `space`.
    """
    one, other = pair(call, models)
    return expression("list_cosine_similarity(CAST(:one AS DOUBLE[]), CAST(:other AS DOUBLE[]))",
                      one=one, other=other)
