"""Views and tables over media and models in a database file, asked again by others."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import mlsql
from mlsql.errors import Error, ProgrammingError, UnknownName
from tests.sessions import Asking, make_pictures, make_video


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with v.mp4 and w.mp4, the same ten pictures, and a folder of pictures."""
    make_video(tmp_path)
    make_video(tmp_path, "w.mp4")
    make_pictures(tmp_path / "pictures")
    return tmp_path


@pytest.fixture
def s(folder: Path) -> Iterator[Asking]:
    with Asking(folder / "a.db") as asking:
        yield asking


def in_another_process(root: Path, database: Path, sql: str) -> str:
    """What a process of its own finds in the database; it registers no model."""
    code = ("import sys, mlsql\n"
            "with mlsql.connect(sys.argv[1]) as con: print(con.execute(sys.argv[2]).fetchall())")
    done = subprocess.run([sys.executable, "-c", code, str(database), sql], capture_output=True,
                          text=True, timeout=120, env={"PYTHONPATH": str(root), "PATH": "/usr/bin",
                                                       "MLSQL_CACHE": "off"})
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# Another process


def test_a_view_over_a_folder_of_clips_is_asked_by_another_process(
    s: Asking, folder: Path, root: Path
) -> None:
    s.run(f"CREATE VIEW clips AS SELECT path, frame_id, ts, frame FROM '{folder}/*.mp4'")
    s.close()
    assert in_another_process(root, folder / "a.db", "SELECT count(*), max(ts) FROM clips") == (
        "[(20, 0.9)]")
    make_video(folder, "x.mp4")
    assert in_another_process(root, folder / "a.db", "SELECT count(*) FROM clips") == "[(30,)]"


def test_a_table_of_frames_is_asked_by_another_process(
    s: Asking, folder: Path, root: Path
) -> None:
    s.run(f"CREATE TABLE kept AS SELECT * FROM read_video('{folder}/v.mp4') WHERE frame_id < 6")
    s.close()
    assert in_another_process(root, folder / "a.db",
                              "SELECT count(*), count(frame) FROM kept") == "[(6, 6)]"
    with Asking(folder / "a.db") as again:
        assert again.value("SELECT list(frame_id ORDER BY frame_id) FROM kept "
                           "WHERE CONTAINS(frame, 'cat', model => 'eye')") == [0, 2, 4]


def test_a_table_of_handles_does_not_depend_on_the_working_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    with Asking("a.db") as s:
        s.run("CREATE TABLE kept AS SELECT * FROM 'v.mp4'")
        assert s.value("SELECT any_value(path) FROM kept") == "v.mp4"
    monkeypatch.chdir("/")
    with Asking(folder / "a.db") as s:
        assert s.value("SELECT count(*) FROM kept WHERE CONTAINS(frame, 'cat', model => 'eye')"
                       ) == 5


# Plain DuckDB


@pytest.mark.parametrize("sql", [
    "SELECT count(*) FROM hits", "SELECT frame_id FROM hits",
    "SELECT * FROM hits WHERE frame_id > 100", "SELECT count(*) FROM hits WHERE frame_id IS NULL",
    "SELECT max(f) FROM numbers", "SELECT 1 FROM numbers LIMIT 1", "SELECT count(*) FROM pairs",
    "SELECT EXISTS (FROM hits)", "CREATE TABLE t AS FROM hits", "SELECT sum(n) FROM counted",
])
def test_plain_duckdb_gets_a_clear_error_and_no_wrong_answer(
    s: Asking, folder: Path, sql: str
) -> None:
    s.run(f"CREATE VIEW hits AS SELECT * FROM '{folder}/v.mp4' "
          "WHERE CONTAINS(frame, 'cat', model => 'eye')")
    s.run("CREATE VIEW numbers AS SELECT x, sq(x) AS f FROM range(4) t(x)")
    s.run("CREATE VIEW pairs AS SELECT frame_id FROM hits JOIN numbers ON x = frame_id")
    s.run("CREATE VIEW counted AS SELECT count(*) AS n FROM hits")
    s.close()
    with duckdb.connect(str(folder / "a.db")) as plain, pytest.raises(
            duckdb.Error, match="open the database with mlsql"):
        plain.execute(sql).fetchall()


def test_plain_duckdb_sees_the_columns(s: Asking, folder: Path) -> None:
    s.run(f"CREATE VIEW hits AS SELECT frame_id, ts AS \"At\", frame, SCORE(frame, 'cat', model => "
          f"'eye') AS s FROM '{folder}/v.mp4'")
    ours = s.rows("DESCRIBE hits")
    s.close()
    with duckdb.connect(str(folder / "a.db")) as plain:
        assert plain.execute("DESCRIBE hits").fetchall() == ours
        assert [row[0] for row in ours] == ["frame_id", "At", "frame", "s"]
        assert [row[1] for row in ours] == [
            "BIGINT", "DOUBLE", 'STRUCT(uri VARCHAR, frame BIGINT, "data" BLOB)', "DOUBLE"]


# Views as DuckDB has them


def test_views_over_views_tables_and_models(s: Asking, folder: Path) -> None:
    s.run(f"CREATE VIEW clips AS FROM '{folder}/*.mp4'")
    s.run("CREATE VIEW cats AS SELECT path, frame_id, frame, SCORE(frame, 'cat', model => 'eye') AS"
          " sure FROM clips WHERE CONTAINS(frame, 'cat', model => 'eye')")
    s.run("CREATE TABLE wanted AS SELECT * FROM (VALUES (0), (1), (6)) w(frame_id)")
    s.run("CREATE VIEW some AS SELECT c.frame_id, sure FROM cats c JOIN wanted USING (frame_id)")
    assert s.value("SELECT count(*) FROM cats") == 10
    assert s.rows("SELECT frame_id, sum(sure) FROM some GROUP BY 1 ORDER BY 1") == [
        (0, 1.8), (6, 1.8)]
    assert s.rows("SELECT DISTINCT frame_id FROM cats WHERE CONTAINS(frame, 'dog', model => 'eye') "
                  "ORDER BY 1") == [(0,), (6,)]
    assert len(s.asked("eye")) <= 20


def test_conditions_go_through_a_view(s: Asking, folder: Path) -> None:
    s.run(f"CREATE VIEW v AS SELECT frame_id, kind(frame).label AS k FROM '{folder}/v.mp4'")
    assert s.rows("SELECT k FROM v WHERE frame_id = 3") == [("cat",)]
    assert len(s.asked("kind")) <= 10


def test_names_of_columns(s: Asking, folder: Path) -> None:
    s.run(f'CREATE VIEW "My View" ("A", b) AS SELECT frame_id, ts, path FROM \'{folder}/v.mp4\'')
    assert s.run('FROM "My View"').columns == ["A", "b", "path"]
    assert s.rows('SELECT "A", B FROM "my view" WHERE a = 2') == [(2, 0.2)]
    assert s.rows('SELECT m."A" FROM "My View" m WHERE m.a = 1') == [(1,)]


def test_schemas_are_told_apart(s: Asking, folder: Path) -> None:
    s.run("CREATE SCHEMA other; CREATE TABLE main.q AS SELECT 7 AS frame_id")
    s.run(f"CREATE VIEW other.q AS SELECT frame_id FROM '{folder}/v.mp4'")
    s.run(f"CREATE VIEW other.p AS SELECT frame_id FROM '{folder}/v.mp4' WHERE frame_id < 3")
    s.run(f"CREATE VIEW p AS SELECT frame_id FROM '{folder}/v.mp4'")
    for name, count in (("q", 1), ("main.q", 1), ("a.main.q", 1), ("other.q", 10), ("p", 10),
                        ("main.p", 10), ("other.p", 3), ("a.other.p", 3), ("a.p", 10)):
        assert s.value(f"SELECT count(*) FROM {name}") == count, name
    s.run("USE other")
    assert (s.value("SELECT count(*) FROM p"), s.value("SELECT count(*) FROM q")) == (3, 10)
    s.run("USE main")
    assert s.value("SELECT count(*) FROM p") == 10


def test_a_temporary_table_hides_a_view(s: Asking, folder: Path) -> None:
    s.run(f"CREATE VIEW w AS FROM '{folder}/v.mp4'")
    s.run("CREATE TEMP TABLE w AS SELECT 1 AS one")
    assert s.rows("FROM w") == [(1,)]
    assert s.value("SELECT count(*) FROM main.w") == 10
    s.run("DROP TABLE temp.w")
    assert s.value("SELECT count(*) FROM w") == 10


def test_a_cte_hides_a_view(s: Asking, folder: Path) -> None:
    s.run(f"CREATE VIEW w AS FROM '{folder}/v.mp4'")
    assert s.rows("WITH w AS (SELECT 1 AS one) FROM w") == [(1,)]
    assert s.rows("WITH w AS (SELECT frame_id FROM main.w WHERE frame_id < 2) SELECT count(*) FROM "
                  "w") == [(2,)]


def test_another_database(s: Asking, folder: Path) -> None:
    s.run("CREATE VIEW numbers AS SELECT x, sq(x) AS f FROM range(4) t(x)")
    s.close()
    with Asking() as other:
        other.run(f"ATTACH '{folder}/a.db' AS o")
        assert other.value("SELECT sum(f) FROM o.numbers") == 14
        assert other.value("SELECT sum(f) FROM o.main.numbers") == 14
        with pytest.raises(ProgrammingError, match="numbers"):
            other.rows("FROM numbers")
        other.run("DETACH o")
        with pytest.raises(ProgrammingError):
            other.rows("FROM o.numbers")


def test_create_or_replace_if_not_exists_rename_drop(s: Asking, folder: Path) -> None:
    s.run(f"CREATE VIEW w AS SELECT 1 AS a FROM '{folder}/v.mp4'")
    with pytest.raises(ProgrammingError, match="already exists"):
        s.run(f"CREATE VIEW w AS SELECT 2 AS a FROM '{folder}/v.mp4'")
    s.run(f"CREATE VIEW IF NOT EXISTS w AS SELECT 3 AS a FROM '{folder}/v.mp4'")
    assert s.value("SELECT max(a) FROM w") == 1
    s.run(f"CREATE OR REPLACE VIEW w AS SELECT 4 AS a FROM '{folder}/v.mp4'")
    assert s.value("SELECT max(a) FROM w") == 4
    s.run("CREATE OR REPLACE VIEW w AS SELECT 5 AS a")
    assert s.rows("FROM w") == [(5,)]
    s.run(f"CREATE OR REPLACE VIEW w AS SELECT 6 AS a FROM '{folder}/v.mp4' LIMIT 1")
    s.run("ALTER VIEW w RENAME TO x; COMMENT ON VIEW x IS 'six'")
    assert s.rows("FROM x") == [(6,)]
    with pytest.raises(ProgrammingError, match="w does not exist"):
        s.rows("FROM w")
    s.run("DROP VIEW x; DROP VIEW IF EXISTS x")
    with pytest.raises(ProgrammingError, match="x does not exist"):
        s.rows("FROM x")


def test_in_a_transaction(s: Asking, folder: Path) -> None:
    s.run(f"BEGIN; CREATE VIEW w AS FROM '{folder}/v.mp4'")
    assert s.value("SELECT count(*) FROM w") == 10
    s.run("ROLLBACK")
    with pytest.raises(ProgrammingError, match="w does not exist"):
        s.rows("FROM w")
    s.run(f"BEGIN; CREATE VIEW w AS FROM '{folder}/v.mp4'; COMMIT")
    assert s.value("SELECT count(*) FROM w") == 10


@pytest.mark.parametrize("body", [
    "SELECT frame_id AS \"Frame ID\", 'it''s' AS q FROM '{}' WHERE frame_id = 2",
    "WITH a AS (SELECT frame_id AS f FROM '{}') SELECT f, 'it''s' FROM a WHERE f = 2",
    "SELECT frame_id, $$it's$$ FROM '{}' WHERE frame_id = 2 -- a comment\n",
    "SELECT 2, 'it''s' FROM (FROM '{0}' UNION ALL FROM '{0}') LIMIT 1",
    "SELECT sq(1) + 1, 'it' || chr(39) || 's' FROM '{}' LIMIT 1",
])
def test_definitions_come_back_as_written(
    s: Asking, folder: Path, body: str
) -> None:
    text = body.format(folder / "v.mp4")
    s.run(f"CREATE VIEW w AS {text}")
    expected, columns = s.rows(text), s.run(text).columns
    s.close()
    with Asking(folder / "a.db") as again:
        found = again.run("FROM w")
        assert found.fetchall() == expected == [(2, "it's")]
        assert found.columns == columns


def test_what_reads_a_view_without_naming_it_in_from(s: Asking, folder: Path) -> None:
    s.run(f"CREATE VIEW w AS SELECT frame_id, ts FROM '{folder}/v.mp4'")
    assert s.rows("TABLE w LIMIT 1") == [(0, 0.0)]
    s.run(f"COPY w TO '{folder}/w.csv'; COPY (FROM w) TO '{folder}/w.parquet'")
    assert s.value(f"SELECT count(*) FROM '{folder}/w.csv'") == 10
    assert s.value(f"SELECT max(ts) FROM '{folder}/w.parquet'") == 0.9
    assert [row[0] for row in s.rows("SUMMARIZE w")] == ["frame_id", "ts"]
    assert [row[0] for row in s.rows("SHOW TABLES")] == ["w"]
    s.run("CREATE TABLE t AS FROM w; INSERT INTO t FROM w; DELETE FROM t WHERE frame_id IN "
          "(SELECT frame_id FROM w WHERE ts > 0.2); UPDATE t SET ts = (SELECT max(ts) FROM w)")
    assert s.rows("SELECT DISTINCT ts, count(*) OVER () FROM t") == [(0.9, 6)]


def test_an_exported_database_comes_back(s: Asking, folder: Path) -> None:
    s.run(f"CREATE VIEW w AS SELECT frame_id FROM '{folder}/v.mp4'")
    s.run(f"EXPORT DATABASE '{folder}/out'")
    with Asking() as other:
        other.run(f"IMPORT DATABASE '{folder}/out'")
        assert other.value("SELECT count(*) FROM w") == 10


# What cannot be


@pytest.mark.parametrize(("body", "kind", "words"), [
    ("SELECT CONTAINS(frame, 'cta', model => 'eye') FROM '{}'", UnknownName, "did you mean 'cat'"),
    ("SELECT CONTAINS(frame, 'cat', model => 'eey') FROM '{}'", UnknownName, "did you mean 'eye'"),
    ("SELECT nope FROM '{}'", ProgrammingError, "nope"),
    ("SELECT * FROM '{}x.mp4'", ProgrammingError, "No files found"),
    ("SELECT sq(?) FROM '{}'", ProgrammingError, "(?i)parameter"),
])
def test_a_view_that_cannot_be_is_refused_when_it_is_made(
    s: Asking, folder: Path, body: str, kind: type[Error], words: str
) -> None:
    with pytest.raises(kind, match=words):
        s.run(f"CREATE VIEW w AS {body.format(folder / 'v.mp4')}")
    assert s.rows("SHOW TABLES") == []


def test_a_model_that_is_gone_is_an_error_of_its_use_alone(s: Asking, folder: Path) -> None:
    s.run("CREATE VIEW numbers AS SELECT sq(x) AS f FROM range(4) t(x)")
    s.run(f"CREATE VIEW seen AS SELECT eye(frame) AS d FROM '{folder}/v.mp4'")
    s.run(f"CREATE VIEW frames AS SELECT frame_id FROM '{folder}/v.mp4'; CREATE TABLE t (x INT)")
    s.close()
    with mlsql.connect(str(folder / "a.db")) as con:
        assert con.execute("SELECT count(*) FROM frames").fetchall() == [(10,)]
        assert len(con.execute("SHOW TABLES").fetchall()) == 4
        for view, model in (("numbers", "sq"), ("seen", "eye")):
            with pytest.raises(UnknownName, match=model) as caught:
                con.execute(f"SELECT count(*) FROM {view}")
            assert "sqrt" not in str(caught.value)
        assert con.execute("SELECT count(*) FROM t").fetchall() == [(0,)]


def test_a_file_that_is_gone_is_an_error_of_its_use_alone(s: Asking, folder: Path) -> None:
    s.run(f"CREATE VIEW frames AS FROM '{folder}/v.mp4'; CREATE TABLE kept AS FROM frames")
    s.close()
    (folder / "v.mp4").rename(folder / "elsewhere.mp4")
    with Asking(folder / "a.db") as s:
        assert s.value("SELECT count(*) FROM kept") == 10
        with pytest.raises(Error, match=r"v\.mp4"):
            s.rows("SELECT count(*) FROM kept WHERE CONTAINS(frame, 'cat', model => 'eye')")
        with pytest.raises(Error, match=r"v\.mp4"):
            s.rows("SELECT count(*) FROM frames")
        (folder / "elsewhere.mp4").rename(folder / "v.mp4")
        assert s.value("SELECT count(*) FROM frames WHERE CONTAINS(frame, 'cat', model => 'eye')"
                       ) == 5


def test_a_read_only_database(s: Asking, folder: Path) -> None:
    s.run(f"CREATE VIEW w AS FROM '{folder}/v.mp4'")
    s.close()
    with mlsql.connect(str(folder / "a.db"), read_only=True) as con:
        assert con.execute("SELECT count(*) FROM w").fetchall() == [(10,)]
        with pytest.raises(ProgrammingError, match="read-only"):
            con.execute(f"CREATE VIEW x AS FROM '{folder}/v.mp4'")


def test_a_view_of_duckdbs_own_stays_duckdbs(s: Asking, folder: Path) -> None:
    s.run("CREATE VIEW plain AS SELECT 42 AS a")
    assert s.rows("SELECT sq(a) FROM plain") == [(1764,)]
    s.close()
    with duckdb.connect(str(folder / "a.db")) as plain:
        assert plain.execute("FROM plain").fetchall() == [(42,)]
