"""ML_PREDICT."""

from __future__ import annotations

from sqlglot import exp

from mlsql.errors import ProgrammingError
from mlsql.udfs.function import Call, Models, function, output
from mlsql.udfs.labels import literal_text
from mlsql.udfs.media import fitted


@function("ML_PREDICT", "model argument", "the model's own type",
          example="SELECT ML_PREDICT(efficientnet_lite0, frame).label AS kind\n"
                  "FROM 'bikes.mp4' WHERE frame_id = 120")
def ml_predict(call: Call, models: Models) -> exp.Expr:
    """The output of any model, as it is, in the type that the model declares."""
    model, argument = call.arguments
    name = literal_text(model) or (model.name if isinstance(model, exp.Column) else None)
    if name is None:
        raise ProgrammingError("ML_PREDICT: the first argument is a model's name")
    spec = models.named(name)
    return output(spec, fitted(spec, argument, call.type))
