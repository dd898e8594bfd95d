"""IMAGE."""

from __future__ import annotations

from sqlglot import exp

from mlsql.errors import ProgrammingError
from mlsql.udfs.function import Call, Models, function
from mlsql.udfs.media import as_media
from mlsql.udfs.spec import IMAGE_TYPE


@function("IMAGE", "source", IMAGE_TYPE,
          example="SELECT CLASSIFY(IMAGE(small)) AS kind\n"
                  "FROM (SELECT ENCODE(frame, 'png') AS small FROM 'bikes.mp4' WHERE frame_id = 9)")
def image(call: Call, models: Models) -> exp.Expr:
    """The picture at a path, or in a BLOB; only a handle, read when a model needs it."""
    picture = as_media(call.arguments[0], call.type)
    if picture is None:
        raise ProgrammingError(f"IMAGE takes a path (VARCHAR) or a BLOB, not {call.type}")
    return picture
