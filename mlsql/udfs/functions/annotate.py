"""ANNOTATE."""

from __future__ import annotations

from sqlglot import exp

from mlsql.udfs.function import Call, Models, function
from mlsql.udfs.pictures import made, side
from mlsql.udfs.spec import IMAGE_TYPE


@function("ANNOTATE", "media detections", IMAGE_TYPE, options="labels scores width",
          example="SELECT ANNOTATE(frame, DETECT(frame, ['person', 'bicycle'])) AS picture\n"
                  "FROM 'bikes.mp4' WHERE frame_id = 120")
def annotate(call: Call, models: Models) -> exp.Expr:
    """The picture with boxes drawn into it: DETECT's answer, or any list of structs with corners.

    Each box has its label and score written to it where the struct has them; `labels => false` and
    `scores => false` leave them out. `width` is that of the lines, in pixels.
    """
    media, detections = call.arguments
    options: dict[str, exp.Expr] = {
        name: exp.cast(call.options.get(name, exp.true()).copy(), "BOOLEAN")
        for name in ("labels", "scores")}
    width = call.options.get("width")
    if width is not None:
        options["width"] = side(call, width, "width")
    return made("annotate", media, {"detections": detections, **options})
