"""A model of your own: any function over a batch of pictures. This one says how light it is.

From the repository's folder: python -m examples.own_model
"""

from __future__ import annotations

import numpy as np

import mlsql
from datasets import bikes


@mlsql.model(task="predict", output="DOUBLE")
def lightness(pictures: list[np.ndarray]) -> list[float]:
    """The mean of all channels, 0 to 1."""
    return [float(picture.mean() / 255) for picture in pictures]


def main() -> None:
    """The lightest frames of a video, two a second."""
    with mlsql.connect() as con:
        con.register_model(lightness)
        video = str(bikes.where()).replace("'", "''")
        lightest = con.sql(f"""
            SELECT frame_id, ts, round(ML_PREDICT('lightness', frame), 3) AS lightness
            FROM read_video('{video}', fps => 2)
            ORDER BY lightness DESC, ts LIMIT 5""")
        lightest.show()
        print(f"{lightest.stats.calls} calls")


if __name__ == "__main__":
    main()
