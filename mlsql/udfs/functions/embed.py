"""EMBED."""

from __future__ import annotations

from sqlglot import exp

from mlsql.udfs.embeddings import embedded, embedder
from mlsql.udfs.function import Call, Models, function


@function("EMBED", "argument", "FLOAT[n]", options="model",
          usage="EMBED(media or text [, model =>])",
          example="SELECT EMBED(frame)[1:4] AS start FROM 'bikes.mp4' WHERE frame_id = 10")
def embed(call: Call, models: Models) -> exp.Expr:
    """A vector that is near that of a picture, or text, alike; its length is the model's.

    Pictures have a default model (EfficientNet-lite0 before its last layer, 1,280 numbers); text
    needs a model that was registered for it.
    """
    spec = embedder(call, models, call.type)
    return embedded(spec, call.arguments[0], call.type)
