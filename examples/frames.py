"""Results as pandas, Arrow and pictures.

From the repository's folder: python -m examples.frames
"""

from __future__ import annotations

import mlsql
from datasets import bikes


def main() -> None:
    """Ask once, look in three ways, and keep the surest picture."""
    video = str(bikes.where()).replace("'", "''")
    with mlsql.connect() as con:
        found = con.sql(f"""
            SELECT frame_id, frame, SCORE(frame, 'bicycle') AS bicycle
            FROM '{video}'
            WHERE frame_id BETWEEN 110 AND 119 AND CONTAINS(frame, 'bicycle')
            ORDER BY bicycle DESC""")
        print(found.df()[["frame_id", "bicycle"]].describe())
        print(found.arrow().schema)
        row = found.fetchone()
        if row is not None:
            print("saved", row[1].save("bicycle.png"))


if __name__ == "__main__":
    main()
