"""The model functions, each against what `eye` sees and `kind` says; see tests/sessions.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mlsql
from mlsql.errors import DataError, ProgrammingError, UnknownName
from tests.media_samples import encode_picture, grey
from tests.sessions import Asking, make_pictures, make_video, number_of

CATS, DOGS = [0, 2, 4, 6, 8], [0, 3, 6, 9]


@pytest.fixture
def s() -> Iterator[Asking]:
    with Asking() as asking:
        yield asking


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("video"))


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_pictures(tmp_path_factory.mktemp("pictures"))


def frames(s: Asking, video: Path, condition: str, parameters: Any = None) -> list[int]:
    found = s.rows(f"SELECT frame_id FROM '{video}' WHERE {condition} ORDER BY 1", parameters)
    return [row[0] for row in found]


# CONTAINS, CONTAINS_ALL, CONTAINS_ANY


@pytest.mark.parametrize(("condition", "expected"), [
    ("CONTAINS(frame, 'cat', model => 'eye')", CATS),
    ("CONTAINS(frame, 'dog', model => 'eye')", DOGS),
    ("CONTAINS(frame, 'bird', model => 'eye')", []),
    ("CONTAINS(frame, 'animal', model => 'eye')", [0, 2, 3, 4, 6, 8, 9]),
    ("CONTAINS(frame, 'Dogs', model => 'eye')", DOGS),
    ("NOT CONTAINS(frame, 'dog', model => 'eye')", [1, 2, 4, 5, 7, 8]),
    ("CONTAINS(frame, 'dog', model => 'eye', min_score => 0.8)", DOGS),
    ("CONTAINS(frame, 'dog', model => 'eye', min_score => 0.81)", []),
    ("CONTAINS(frame, 'dog', min_count => 2, model => 'eye')", []),
    ("CONTAINS(frame, 'dog', min_count := 2, min_score := 0.4, model := 'eye')", DOGS),
    ("CONTAINS(frame, 'dog', min_count => 3, min_score => 0, model => 'eye')", []),
    ("CONTAINS_ALL(frame, ['cat', 'dog'], model => 'eye')", [0, 6]),
    ("CONTAINS_ALL(frame, ['dog'], model => 'eye')", DOGS),
    ("CONTAINS_ANY(frame, ['cat', 'dog'], model => 'eye')", [0, 2, 3, 4, 6, 8, 9]),
    ("CONTAINS_ANY(frame, ['bird', 'dog'], model => 'eye', min_score => 0.5)", DOGS),
    ("CONTAINS(frame, 'fish', model => 'kind')", [5, 6, 7, 8, 9]),
    ("CONTAINS(frame, 'animal', model => 'kind')", list(range(10))),
    ("CONTAINS(frame, 'dog', model => 'kind', min_score => 0.3)", list(range(10))),
    ("CONTAINS(frame, 'dog', model => 'kind', min_score => 0.31)", []),
])
def test_contains(s: Asking, video: Path, condition: str, expected: list[int]) -> None:
    assert frames(s, video, condition) == expected


def test_thresholds_may_be_expressions_and_parameters(s: Asking, video: Path) -> None:
    condition = "CONTAINS(frame, 'dog', model => 'eye', min_score => {})"
    assert frames(s, video, condition.format("frame_id / 10.0")) == [0, 3, 6]
    assert frames(s, video, condition.format("?"), [0.9]) == []
    assert frames(s, video, condition.format("$least"), {"least": 0.5}) == DOGS


def test_labels_from_columns(s: Asking, video: Path) -> None:
    sql = f"""SELECT label, list(frame_id ORDER BY frame_id) FROM '{video}', (VALUES {{}}) t(label)
              WHERE CONTAINS(frame, t.label, model => 'eye') GROUP BY 1 ORDER BY 1"""
    assert s.rows(sql.format("('cat'), ('dog'), ('bird'), (NULL), (' Dogs ')")) == [
        (" Dogs ", DOGS), ("cat", CATS), ("dog", DOGS)]
    assert len(s.asked("eye")) == 10
    with pytest.raises((DataError, ProgrammingError), match="unknown label 'cta'"):
        s.rows(sql.format("('cat'), ('cta')"))
    with pytest.raises(mlsql.Error, match="label"):
        s.rows(sql.format("('cat'), ('')"))


def test_the_other_functions_take_labels_from_columns_too(s: Asking, video: Path) -> None:
    assert s.rows(f"""
        SELECT label, SCORE(frame, label, model => 'eye'), COUNT_OBJECTS(frame, label,
               min_score => 0.3, model => 'eye'), len(DETECT(frame, [label], model => 'eye')),
               SCORE(frame, label, model => 'kind'),
               CONTAINS_ALL(frame, [label, 'cat'], model => 'eye')
        FROM '{video}', (VALUES ('cat'), ('dog'), (NULL)) t(label)
        WHERE frame_id = 3 ORDER BY label""") == [
        ("cat", 0.0, 0, 0, pytest.approx(0.6), False),
        ("dog", 0.8, 2, 1, pytest.approx(0.3), False),
        (None, None, None, None, None, False)]  # no cat, whatever the other may be


def test_a_null_label_gives_null(s: Asking, video: Path) -> None:
    for call in ("CONTAINS(frame, NULL, model => 'eye')", "SCORE(frame, NULL, model => 'eye')",
                 "COUNT_OBJECTS(frame, NULL::VARCHAR, model => 'eye')"):
        assert set(s.rows(f"SELECT {call} FROM '{video}'")) == {(None,)}
    assert set(s.rows(f"SELECT SCORE(frame, ?, model => 'eye') FROM '{video}'", [None])) == {
        (None,)}


def test_a_label_is_text(s: Asking, video: Path) -> None:
    for label in ("3", "frame_id", "TRUE"):
        with pytest.raises(ProgrammingError, match="label"):
            s.rows(f"SELECT SCORE(frame, {label}, model => 'eye') FROM '{video}'")


@pytest.mark.parametrize("sql", [
    "SELECT contains('abc', 'b'), contains('abc', 'x'), contains(NULL, 'b')",
    "SELECT contains([1, 2], 1), contains([1, 2], 3), contains(['a'], 'a')",
    "SELECT contains(MAP {'a': 1}, 'a')",
    "SELECT x FROM (VALUES ('abc'), ('xyz'), (NULL)) t(x) WHERE contains(x, 'b')",
    "SELECT list_contains([1], 1), 'abc'.contains('b'), [1, 2].contains(2)",
])
def test_duckdbs_own_contains_is_left_alone(s: Asking, sql: str) -> None:
    import duckdb

    assert s.rows(sql) == duckdb.sql(sql).fetchall()


def test_both_kinds_of_contains_in_one_statement(s: Asking, video: Path) -> None:
    assert s.value(f"""SELECT count(*) FROM '{video}' WHERE contains(path, '.mp4')
                       AND contains([0, 2, 3], frame_id) AND CONTAINS(frame, 'cat', model => 'eye')
                   """) == 2
    assert len(s.asked("eye")) == 3


# COUNT_OBJECTS, SCORE, DETECT


def test_count_objects(s: Asking, video: Path) -> None:
    result = s.run(f"""
        SELECT COUNT_OBJECTS(frame, 'dog', model => 'eye'),
               COUNT_OBJECTS(frame, 'dog', model => 'eye', min_score => 0.3),
               COUNT_OBJECTS(frame, 'animal', model => 'eye'),
               COUNT_OBJECTS(frame, 'bird', model => 'eye')
        FROM '{video}' WHERE frame_id IN (0, 1, 3) ORDER BY frame_id""")
    assert result.types == ["INTEGER"] * 4
    assert result.fetchall() == [(1, 2, 2, 0), (0, 0, 0, 0), (1, 2, 1, 0)]


def test_score(s: Asking, video: Path) -> None:
    result = s.run(f"""
        SELECT SCORE(frame, 'dog', model => 'eye'), SCORE(frame, 'animal', model => 'eye'),
               SCORE(frame, 'fish', model => 'kind'), SCORE(frame, 'animal', model => 'kind')
        FROM '{video}' WHERE frame_id IN (0, 1, 9) ORDER BY frame_id""")
    assert result.types == ["DOUBLE"] * 4
    assert result.fetchall() == [
        (0.8, 0.9, pytest.approx(0.1), pytest.approx(1)),
        (0.0, 0.0, pytest.approx(0.1), pytest.approx(1)),
        (0.8, 0.8, pytest.approx(0.6), pytest.approx(1))]


def test_contains_is_score_at_least_min_score(s: Asking, video: Path) -> None:
    for label, least, model in (("dog", 0.5, "eye"), ("dog", 0.4, "eye"), ("fish", 0.5, "kind"),
                                ("cat", 0.6, "kind"), ("animal", 0.95, "kind")):
        assert s.value(f"""
            SELECT bool_and(CONTAINS(frame, '{label}', model => '{model}', min_score => {least})
                   = (SCORE(frame, '{label}', model => '{model}') >= {least})) FROM '{video}'""")


def test_detect(s: Asking, video: Path) -> None:
    cat = {"label": "cat", "score": 0.9, "x1": 1.0, "y1": 1.0, "x2": 5.0, "y2": 5.0}
    dog, faint = {**cat, "label": "dog", "score": 0.8}, {
        "label": "dog", "score": 0.4, "x1": 2.0, "y1": 2.0, "x2": 6.0, "y2": 6.0}
    result = s.run(f"""
        SELECT DETECT(frame, model => 'eye'), DETECT(frame, ['dog'], model => 'eye'),
               DETECT(frame, ['dog', 'cat'], model => 'eye', min_score => 0),
               DETECT(frame, ['bird'], model => 'eye'), DETECT(frame, ['mammal'], model => 'eye')
        FROM '{video}' WHERE frame_id IN (0, 1) ORDER BY frame_id""")
    assert result.types[0].replace('"', "") == (
        "STRUCT(label VARCHAR, score DOUBLE, x1 DOUBLE, y1 DOUBLE, x2 DOUBLE, y2 DOUBLE)[]")
    assert result.fetchall() == [
        ([cat, dog], [dog], [cat, dog, faint], [], [cat, dog]), ([], [], [], [], [])]


def test_detections_as_rows(s: Asking, video: Path) -> None:
    expected = [("cat", 5), ("dog", 4)]
    for sql in (
        "SELECT d.label, count(*) FROM '{}', UNNEST(DETECT(frame, model => 'eye')) u(d) "
        "GROUP BY 1 ORDER BY 1",
        "SELECT d.label, count(*) FROM (SELECT UNNEST(DETECT(frame, model => 'eye')) AS d FROM "
        "'{}') GROUP BY ALL ORDER BY ALL",
        "SELECT label, count(*) FROM (SELECT UNNEST(DETECT(frame, model => 'eye'), recursive := "
        "true) FROM '{}') GROUP BY 1 ORDER BY 1",
        "SELECT l, count(*) FROM (SELECT UNNEST([d.label FOR d IN DETECT(frame, model => 'eye')])"
        " AS l FROM '{}') GROUP BY l ORDER BY l",
    ):
        assert s.rows(sql.format(video)) == expected, sql
        assert len(s.asked("eye")) == 10


# CLASSIFY, CLASSIFY_SCORES, AI_CLASSIFY


def test_classify(s: Asking, video: Path) -> None:
    result = s.run(f"""
        SELECT CLASSIFY(frame, model => 'kind'), CLASSIFY(frame, ['dog', 'fish'], model => 'kind'),
               AI_CLASSIFY(frame, ['fish', 'dog'], model => 'kind'),
               CLASSIFY(frame, ['Dogs'], model => 'kind')
        FROM '{video}' WHERE frame_id IN (0, 9) ORDER BY frame_id""")
    assert result.types == ["VARCHAR"] * 4
    assert result.fetchall() == [("cat", "dog", "dog", "Dogs"), ("fish", "fish", "fish", "Dogs")]
    assert len(s.asked("kind")) == 2


def test_classify_among_words_takes_all_that_a_word_covers(s: Asking, video: Path) -> None:
    assert s.rows(f"""SELECT CLASSIFY(frame, ['fish', 'mammal'], model => 'kind') FROM '{video}'
                      WHERE frame_id IN (0, 9) ORDER BY frame_id""") == [("mammal",), ("fish",)]


def test_classify_scores(s: Asking, video: Path) -> None:
    result = s.run(f"SELECT CLASSIFY_SCORES(frame, model => 'kind') AS m FROM '{video}' LIMIT 1")
    assert result.types == ["MAP(VARCHAR, DOUBLE)"]
    assert result.fetchall() == [(pytest.approx({"cat": 0.6, "dog": 0.3, "fish": 0.1}),)]
    assert s.value(f"SELECT max(CLASSIFY_SCORES(frame, model => 'kind')['fish']) FROM '{video}'"
                   ) == pytest.approx(0.6)


def test_group_by_class(s: Asking, video: Path) -> None:
    for sql in ("SELECT CLASSIFY(frame, model => 'kind') AS c, count(*) FROM '{}' GROUP BY c "
                "HAVING count(*) > 1 ORDER BY c",
                "SELECT CLASSIFY(frame, model => 'kind'), count(*) FROM '{}' GROUP BY 1 ORDER BY 1",
                "SELECT CLASSIFY(frame, model => 'kind') AS c, count(*) FROM '{}' GROUP BY ALL "
                "HAVING c <> 'dog' ORDER BY ALL"):
        assert s.rows(sql.format(video)) == [("cat", 5), ("fish", 5)]


# ML_PREDICT, and models by their own name


def test_a_model_by_its_name(s: Asking, video: Path) -> None:
    assert s.rows("SELECT sq(4), ML_PREDICT('sq', 4), ML_PREDICT(sq, 4), ml_predict('SQ', 4)") == [
        (16, 16, 16, 16)]
    assert s.asked("sq") == [4]
    scores = {"label": "cat", "scores": pytest.approx([0.6, 0.3, 0.1])}
    assert s.rows(f"SELECT kind(frame), ML_PREDICT('kind', frame), kind(frame).label FROM '{video}'"
                  " LIMIT 1") == [(scores, scores, "cat")]
    assert s.value(f"SELECT len(eye(frame)) FROM '{video}' LIMIT 1") == 3  # no threshold


@pytest.mark.parametrize(("output", "function", "argument", "expected"), [
    ("VARCHAR", lambda x: f"<{x}>", "7", "<7>"), ("DOUBLE", lambda x: x / 2, "7", 3.5),
    ("BOOLEAN", lambda x: x > 3, "7", True), ("DATE", lambda x: __import__("datetime").date(
        2020, 1, x), "7", __import__("datetime").date(2020, 1, 7)),
    ("INTEGER[]", lambda x: [x, x], "7", [7, 7]), ("FLOAT[2]", lambda x: [x, 1], "7", (7.0, 1.0)),
    ("STRUCT(a INTEGER, b VARCHAR)", lambda x: {"a": x, "b": "z"}, "7", {"a": 7, "b": "z"}),
    ("MAP(VARCHAR, INTEGER)", lambda x: {"k": x}, "7", {"k": 7}),
    ("BLOB", lambda x: bytes([x]), "7", b"\x07"),
    ("VARCHAR", lambda x: None if x == 0 else "", "7", ""),
])
def test_outputs_of_many_types(
    s: Asking, output: str, function: Any, argument: str, expected: Any
) -> None:
    s.add("made", function, output=output)
    found = s.value(f"SELECT made({argument})")
    assert (tuple(found) if isinstance(expected, tuple) else found) == expected
    assert s.value(f"SELECT count(*) FROM range(3) WHERE made({argument}) IS NOT NULL") == 3


@pytest.mark.parametrize(("kind", "literal", "given"), [
    ("VARCHAR", "'ä'", "ä"), ("DOUBLE", "1.5", 1.5), ("BOOLEAN", "true", True),
    ("INTEGER[]", "[1, NULL]", [1, None]), ("BLOB", "'\\x00\\xff'::BLOB", b"\x00\xff"),
    ("STRUCT(a INTEGER)", "{'a': 1}", {"a": 1}), ("VARCHAR[]", "[]", []),
])
def test_inputs_of_many_types(s: Asking, kind: str, literal: str, given: Any) -> None:
    s.add("made", lambda x: repr(x), input=kind, output="VARCHAR")
    assert s.value(f"SELECT made({literal})") == repr(given)
    assert s.rows(f"SELECT made(v) FROM (VALUES ({literal}), ({literal}), (NULL)) t(v)") == [
        (repr(given),), (repr(given),), (None,)]
    assert s.asked("made") == [given]


def test_arguments_are_cast_to_the_declared_type(s: Asking) -> None:
    assert s.rows("SELECT sq('3'), sq(3::TINYINT), sq(3.2), sq(true)") == [(9, 9, 9, 1)]
    assert sorted(s.asked("sq")) == [1, 3]
    for sql in ("SELECT sq('abc')", "SELECT sq(x) FROM (VALUES ('1'), ('abc')) t(x)"):
        with pytest.raises(DataError, match="abc"):
            s.rows(sql)
    assert s.rows("SELECT sq(x) FROM (VALUES ('1'), ('abc')) t(x) WHERE x <> 'abc'") == [(1,)]


def test_nested_calls(s: Asking) -> None:
    assert s.rows("SELECT sq(sq(x)), up(sq(x)::VARCHAR || 'a') FROM range(3) t(x) "
                  "WHERE NOT big(sq(x)) ORDER BY x") == [(0, "0A"), (1, "1A")]


# IMAGE: pictures by path and as BLOBs


def test_a_table_of_paths(s: Asking, pictures: Path) -> None:
    s.run("CREATE TABLE t (path VARCHAR)")
    s.run("INSERT INTO t VALUES (?), (?), (NULL), ($1)".replace("$1", "?"),
          [f"{pictures}/0.png", f"{pictures}/3.png", f"{pictures}/0.png"])
    assert s.rows("SELECT SCORE(IMAGE(path), 'cat', model => 'eye') FROM t") == [
        (0.9,), (0.0,), (None,), (0.9,)]
    assert len(s.asked("eye")) == 2
    assert s.value("SELECT count(*) FROM t WHERE CONTAINS(IMAGE(path), 'dog', model => 'eye')") == 3
    assert s.rows("SELECT kind(path).label FROM t LIMIT 1") == [("cat",)]
    assert s.value("SELECT count(*) FROM t WHERE contains(path, 'png')") == 3  # DuckDB's


def test_pictures_as_blobs(s: Asking, pictures: Path) -> None:
    s.run(f"CREATE TABLE b AS SELECT parse_filename(filename) AS name, content FROM "
          f"read_blob('{pictures}/*.png') UNION ALL SELECT 'none', NULL")
    assert s.rows("SELECT name FROM b WHERE CONTAINS(IMAGE(content), 'cat', model => 'eye') "
                  "ORDER BY 1") == [("0.png",), ("2.png",)]
    s.run("CREATE TABLE i AS SELECT name, IMAGE(content) AS image FROM b")
    assert s.value("SELECT count(*) FROM i WHERE CONTAINS(image, 'dog', model => 'eye')") == 2
    data = encode_picture(grey(60), "JPEG", quality=95)
    assert s.value("SELECT SCORE(IMAGE(?), 'dog', model => 'eye')", [data]) == 0.8


def test_an_image_is_a_handle_that_decodes_nothing(s: Asking, pictures: Path) -> None:
    result = s.run("SELECT IMAGE('/no/such/file.png') AS i, IMAGE(NULL) AS n")
    assert result.types[0].startswith("STRUCT(uri VARCHAR, frame BIGINT, ")
    ((image, nothing),) = result.fetchall()
    assert image == mlsql.Image("/no/such/file.png") and nothing is None
    assert number_of(s.value(f"SELECT IMAGE('{pictures}/2.png')").numpy()) == 2


def test_a_handle_made_by_hand(s: Asking, video: Path) -> None:
    made = f"{{'uri': '{video}', 'frame': 4, 'data': NULL::BLOB}}"
    assert s.value(f"SELECT SCORE({made}, 'cat', model => 'eye')") == 0.9
    assert s.value(f"SELECT kind({made}).label") == "cat"


# What is refused


@pytest.mark.parametrize(("call", "words"), [
    ("CONTAINS(frame, 'cat', 'eye')", "CONTAINS takes 2 arguments, not 3"),
    ("CONTAINS(frame)", "CONTAINS takes 2 arguments, not 1"),
    ("SCORE()", "SCORE takes 2 arguments, not 0"),
    ("CONTAINS(frame, 'cat', modle => 'eye')", "unknown option 'modle' .*did you mean 'model'"),
    ("SCORE(frame, 'cat', min_score => 0.5)", "unknown option 'min_score' of SCORE"),
    ("CONTAINS(frame, 'cat', model => 'eey')", "unknown model 'eey': did you mean 'eye'"),
    ("CONTAINS(frame, 'cat', model => 'sq')", "sq .*gives no scores for labels"),
    ("CONTAINS(frame, 'cat', model => eye)", "model => takes a model's name in quotes"),
    ("CONTAINS(frame, 'cat', model => 'eye', min_score => 2)", "min_score 2 is outside 0 to 1"),
    ("CONTAINS(frame, 'cat', model => 'eye', min_score => -1)", "min_score -1 is outside 0 to 1"),
    ("CONTAINS(frame, 'cat', model => 'kind', min_count => 2)", "min_count wants a detector"),
    ("COUNT_OBJECTS(frame, 'cat', model => 'kind')", "COUNT_OBJECTS wants a model for 'detect'"),
    ("DETECT(frame, model => 'kind')", "DETECT wants a model for 'detect'; kind is for 'classify'"),
    ("CLASSIFY(frame, model => 'eye')", "CLASSIFY wants a model for 'classify'"),
    ("CONTAINS_ALL(frame, [], model => 'eye')", "a list of labels"),
    ("CONTAINS_ALL(frame, 'cat', model => 'eye')", "a list of labels"),
    ("DETECT(frame, 'cat', model => 'eye')", "a list of labels"),
    ("sq(1, 2)", "sq takes one argument"), ("sq()", "sq takes one argument"),
    ("sq(frame)", "sq .*BIGINT"), ("eye(3)", "eye looks at a picture: 3 is INTEGER"),
    ("SCORE(frame_id, 'cat', model => 'eye')", "SCORE.*BIGINT"),
    ("IMAGE(3)", r"IMAGE takes a path \(VARCHAR\) or a BLOB, not INTEGER"),
    ("ML_PREDICT('eey', frame)", "unknown model 'eey': did you mean 'eye'"),
    ("CONTAINS(frame, ['cat'], model => 'eye')", "label"),
    ("SCORE(nope, 'cat', model => 'eye')", 'column "nope" not found'),
])
def test_a_wrong_call_says_what_is_wrong(
    s: Asking, video: Path, call: str, words: str
) -> None:
    with pytest.raises(ProgrammingError, match=words) as caught:
        s.rows(f"SELECT {call} FROM '{video}'")
    assert "mlsql_" not in str(caught.value)
    assert s.calls == 0


def test_a_word_that_no_model_knows_names_those_that_were_asked(s: Asking, video: Path) -> None:
    with pytest.raises(UnknownName, match=r"ssd_mobilenet_v2 .* did you mean 'bicycle'"):
        s.rows(f"SELECT CONTAINS(frame, 'bicicle') FROM '{video}'")
