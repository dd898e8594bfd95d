"""Queries over what models saw at a crossing: the tables are views over fake models.

The models answer with what the data set says that they answered; the answers to the queries are
those the data set came with.
"""

from __future__ import annotations

import ast
import csv
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mlsql.session import Session

BOX = ("x_min", "y_min", "x_max", "y_max")
LIGHTS = tuple(f"light_{i}" for i in range(1, 5))

VIEWS = """
CREATE VIEW objects00 AS
    SELECT frame, seen.* FROM (SELECT frame, unnest(objects_in(frame)) AS seen FROM blobs_00);
CREATE VIEW colors02 AS
    SELECT frame, object_id, color_of({'frame': frame, 'object_id': object_id}) AS color
    FROM objects00;
CREATE VIEW lights01 AS SELECT frame, unnest(lights_at(frame)) FROM blobs_00;
CREATE VIEW counts03 AS SELECT frame, count_in(frame) AS count FROM blobs_00;
"""


@dataclass
class Models:
    """What the four models answer, and what they have been asked."""

    objects: dict[int, list[dict[str, Any]]]
    colors: dict[tuple[int, int], str]
    lights: dict[int, dict[str, str]]
    counts: dict[int, int]
    asked: dict[str, list[Any]] = field(default_factory=lambda: defaultdict(list))

    def objects_in(self, frames: list[int]) -> list[Any]:
        self.asked["objects_in"] += frames
        return [self.objects.get(frame, []) for frame in frames]

    def color_of(self, objects: list[dict[str, int]]) -> list[Any]:
        keys = [(o["frame"], o["object_id"]) for o in objects]
        self.asked["color_of"] += keys
        return [self.colors[key] for key in keys]

    def lights_at(self, frames: list[int]) -> list[Any]:
        self.asked["lights_at"] += frames
        return [self.lights[frame] for frame in frames]

    def count_in(self, frames: list[int]) -> list[Any]:
        self.asked["count_in"] += frames
        return [self.counts[frame] for frame in frames]

    def register(self, session: Session) -> None:
        box = ", ".join(f"{name} DOUBLE" for name in BOX)
        outputs = {
            "objects_in": ("BIGINT", "STRUCT(object_id BIGINT, object_name VARCHAR, "
                                     f"confidence_score DOUBLE, {box})[]"),
            "color_of": ("STRUCT(frame BIGINT, object_id BIGINT)", "VARCHAR"),
            "lights_at": ("BIGINT", f"STRUCT({', '.join(f'{name} VARCHAR' for name in LIGHTS)})"),
            "count_in": ("BIGINT", "BIGINT"),
        }
        for name, (input, output) in outputs.items():
            session.register_model(getattr(self, name), name, task="predict", input=input,
                                   output=output)


def rows(file: Path) -> list[dict[str, str]]:
    """The rows of a file of outputs, by the last part of each column's name."""
    with file.open(newline="") as lines:
        reader = csv.DictReader(lines)
        return [{name.rpartition(".")[2]: value for name, value in row.items()
                 if name.startswith("out__")} for row in reader]


def read_models(folder: Path) -> Models:
    models = Models(defaultdict(list), {}, {}, {})
    for row in rows(folder / "objects00.csv"):
        models.objects[int(row["frame"])].append({
            "object_id": int(row["object_id"]), "object_name": row["object_name"],
            "confidence_score": float(row["confidence_score"]),
            **{name: float(row[name]) for name in BOX}})
    for row in rows(folder / "colors02.csv"):
        models.colors[int(row["frame"]), int(row["object_id"])] = row["color"]
    for row in rows(folder / "lights01.csv"):
        models.lights[int(row["frame"])] = {name: row[name] for name in LIGHTS}
    for row in rows(folder / "counts03.csv"):
        models.counts[int(row["frame"])] = int(row["count"])
    return models


@pytest.fixture(scope="module")
def folder(data: Path) -> Path:
    return data / "tables" / "aidb_jackson"


@pytest.fixture(scope="module")
def models(folder: Path) -> Models:
    return read_models(folder / "inference")


@pytest.fixture(scope="module")
def session(folder: Path, models: Models) -> Iterator[Session]:
    with Session(config={"cache": False}) as session:
        models.register(session)
        session.execute("CREATE TABLE blobs_00 AS SELECT column0 AS frame FROM read_csv("
                        "?, header = false, skip = 1)",
                        [str(folder / "ground_truth" / "blobs_00.csv")])
        session.execute(VIEWS)
        yield session


@pytest.fixture(scope="module")
def cases(folder: Path) -> list[tuple[str, list[tuple[Any, ...]]]]:
    found = re.findall(r"^(SELECT .*?);\n-- expected: (.*)$", (folder / "EXPECTED.sql").read_text(),
                       re.M)
    return [(sql, ast.literal_eval(answer)) for sql, answer in found]


@pytest.mark.parametrize("recorded", [False, True], ids=["peeled", "recorded"])
@pytest.mark.parametrize("number", range(23))
def test_queries(
    number: int, recorded: bool, session: Session, models: Models,
    cases: list[tuple[str, list[tuple[Any, ...]]]],
) -> None:
    sql, expected = cases[number]
    models.asked.clear()
    session._runner.peels = not recorded
    try:
        result = session.execute(sql)
        assert close(result.fetchall(), expected), sql
    finally:
        session._runner.peels = True
    for name, asked in models.asked.items():
        assert len(asked) == len(set(asked)), f"{name} was asked again"
    needed = {model for word, used in USES.items() if word in sql for model in used}
    assert {name for name, asked in models.asked.items() if asked} <= needed, sql


# The models that a view may ask.
USES = {"objects00": ["objects_in"], "colors02": ["objects_in", "color_of"],
        "lights01": ["lights_at"], "counts03": ["count_in"]}


def test_all_queries_are_there(cases: list[tuple[str, list[tuple[Any, ...]]]]) -> None:
    assert len(cases) == 23


def test_colours_only_of_what_is_left(session: Session, models: Models) -> None:
    models.asked.clear()
    session.execute("SELECT object_id, color FROM colors02 WHERE frame BETWEEN 1000 AND 1100")
    assert sorted(models.asked["objects_in"]) == list(range(1005, 1101, 15))
    assert {frame for frame, _ in models.asked["color_of"]} <= set(range(1000, 1101))


def close(found: list[tuple[Any, ...]], expected: list[tuple[Any, ...]]) -> bool:
    """Equal rows; sums of fractions may differ in the last digits: rows are added in any order."""
    return found == [tuple(pytest.approx(v, rel=1e-12) if isinstance(v, float) else v
                           for v in row) for row in expected]
