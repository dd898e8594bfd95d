"""What is known already costs next to nothing: no worker, no copies, nothing loaded in vain."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mlsql.errors import InternalError
from mlsql.exec.arrow import column, numbers, repeated_texts
from mlsql.parser.dialect import parse, to_sql
from mlsql.planner.narrow import narrow
from tests.sessions import Asking, make_pictures, make_video

# ---------------------------------------------------------------- functions inside a look-up

LOOK_UP = "(SELECT m0.mlsql_out FROM m0 WHERE m0.mlsql_arg IS NOT DISTINCT FROM frame)"
INSIDE = "SELECT (SELECT {} FROM m0 WHERE m0.mlsql_arg IS NOT DISTINCT FROM frame) FROM t"
MOVED = {
    "list_transform([{out}], lambda mlsql_o: len(mlsql_o))[1]": "(LENGTH(m0.mlsql_out))",
    "struct_extract({out}, 'label')": "STRUCT_EXTRACT(m0.mlsql_out, 'label')",
    "list_filter({out}, lambda d: d.score >= 0.5)":
        "LIST_FILTER(m0.mlsql_out, LAMBDA d : d.score >= 0.5)",
    "list_sum(list_select(CAST(struct_extract({out}, 'scores') AS DOUBLE[]), [1, 2]))":
        "LIST_SUM(LIST_SELECT(CAST(STRUCT_EXTRACT(m0.mlsql_out, 'scores') AS DOUBLE[]), [1, 2]))",
}
STAY = [
    "list_filter({out}, lambda d: d.score >= least)",  # of the row around it
    "list_filter({out}, lambda d: 1 / d.score > 2)",  # may fail on a row that is not wanted
    "list_filter({out}, lambda d: d.score > random())",  # differs from call to call
    "list_transform([{out}], lambda mlsql_o: coalesce(len(mlsql_o), 0))[1]",  # not NULL of NULL
    "list_transform([{out}], lambda o: len(o))[1]",  # not ours
    "least(1.0, {out})", "upper({out})", "CAST({out} AS INTEGER)", "{out} + 1",
]


@pytest.mark.parametrize("expression", MOVED)
def test_functions_of_an_output_move_into_its_look_up(expression: str) -> None:
    tree = parse(f"SELECT {expression.format(out=LOOK_UP)} FROM t")
    narrow(tree)
    assert to_sql(tree) == INSIDE.format(MOVED[expression])


@pytest.mark.parametrize("expression", STAY)
def test_other_functions_stay_outside(expression: str) -> None:
    tree = parse(f"SELECT {expression.format(out=LOOK_UP)} FROM t")
    before = to_sql(tree)
    narrow(tree)
    assert to_sql(tree) == before


def test_no_answer_about_no_picture(tmp_path: Path) -> None:
    (make_pictures(tmp_path) / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(40))
    ask = "SCORE(image, 'cat', model => 'kind'), CONTAINS(image, 'cat', model => 'kind')"
    count = "COUNT_OBJECTS(image, 'cat', model => 'eye')"
    with Asking(on_error="null") as s:
        rows = s.rows(f"SELECT {ask}, {count} FROM read_images('{tmp_path}/*.png') "
                      "WHERE path LIKE '%broken%'")
        assert rows == [(None, None, None)]
        none = "(SELECT NULL::STRUCT(uri VARCHAR, frame BIGINT, data BLOB) AS image)"
        assert s.rows(f"SELECT {ask}, {count} FROM {none}") == [(None, None, None)]


# ---------------------------------------------------------------- everything in the cache

CATS = "COUNT_OBJECTS(frame, 'cat', model => 'eye')"


@pytest.fixture
def cached(tmp_path: Path) -> Iterator[Asking]:
    with Asking(cache=True, cache_dir=str(tmp_path / "cache")) as s:
        s.add("eye", lambda picture: [("cat", 0.9, 1, 1, 5, 5)] * (round(picture.mean() / 20) % 2),
              task="detect", labels=["cat"])
        yield s


def test_a_second_run_needs_no_worker(
    cached: Asking, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = make_video(tmp_path)
    query = f"SELECT frame_id FROM '{video}' WHERE {CATS} >= 1"
    first = cached.rows(query)
    assert first == [(n,) for n in range(1, 10, 2)]
    runner = cached.session._runner
    executor = runner.executor()

    def refuse(shares: Any) -> Any:
        raise AssertionError("a worker was asked")

    monkeypatch.setattr(executor, "run", refuse)
    again = cached.run(query)
    assert (again.fetchall(), again.stats.calls, again.stats.cached) == (first, 0, 10)
    with pytest.raises(InternalError, match="a worker was asked"):
        cached.run(query.replace("'eye'", "'eye', min_score => .95"))


def test_a_condition_that_is_new_is_judged_on_known_outputs(
    cached: Asking, tmp_path: Path
) -> None:
    video = make_video(tmp_path)
    cached.rows(f"SELECT {CATS} FROM '{video}'")
    condition = f"{CATS} >= 1"
    measured = cached.session._runner.measured
    assert measured.selectivity(condition) is None
    assert cached.run(f"SELECT frame_id FROM '{video}' WHERE {condition}").stats.calls == 0
    assert measured.selectivity(condition) == pytest.approx(0.5)


def test_half_of_it_known(cached: Asking, tmp_path: Path) -> None:
    video = make_video(tmp_path)
    cached.rows(f"SELECT {CATS} FROM '{video}' WHERE frame_id >= 5")
    found = cached.run(f"SELECT frame_id FROM '{video}' WHERE {CATS} >= 1")
    assert found.fetchall() == [(n,) for n in range(1, 10, 2)]
    assert (found.stats.calls, found.stats.cached) == (5, 5)


# ---------------------------------------------------------------- columns made of bytes


@pytest.mark.parametrize("values", [
    np.arange(5), np.array([True, False, True] * 7), np.array([1.5, -0.0]), np.array([], np.bool_),
    np.arange(10, dtype=np.int32)[::3], np.array([], np.int64), np.array([2**64 - 1], np.uint64),
], ids=lambda v: f"{v.dtype}[{len(v)}]")
def test_columns_there_and_back(values: np.ndarray[Any, Any]) -> None:
    made = column(values)
    made.validate(full=True)
    assert made.equals(pa.array(values))
    for part in (made, made.slice(1), made.slice(1, 1)):
        back = numbers(part)
        assert back.dtype == values.dtype
        assert back.tolist() == part.to_pylist()


def test_texts_are_repeated() -> None:
    made = repeated_texts(["a", "é中", "", "b"], [2, 1, 3, 0])
    made.validate(full=True)
    assert made.type == pa.string()
    assert made.to_pylist() == ["a", "a", "é中", "", "", ""]
    assert repeated_texts([], []).to_pylist() == []
    with pytest.raises(UnicodeEncodeError):
        repeated_texts(["\udcff"], [1])


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="there is no pandas")
def test_listing_loads_no_pandas(tmp_path: Path) -> None:
    code = (f"import sys, mlsql\ns = mlsql.connect(config={{'cache_dir': '{tmp_path}/cache'}})\n"
            f"print(s.execute(\"SELECT count(*), max(ts) FROM '{make_video(tmp_path)}'\")"
            ".fetchall(), 'pandas' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.startswith("[(10, 0.9)] False"), done
