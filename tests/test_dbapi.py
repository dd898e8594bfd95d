"""PEP 249 beyond what its public suite asks: transactions, errors, threads, forks."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

import mlsql
import mlsql.dbapi
from mlsql import errors
from mlsql.dbapi import BINARY, DATETIME, NUMBER, STRING, Connection, connect
from mlsql.exec.limits import row_failed
from mlsql.exec.share import RowError
from mlsql.foreign import only_own_errors, translated
from tests.sessions import make_video, see

LONG = "SELECT count(*) FROM range(3000000) a, range(3000000) b WHERE a.range + b.range = 7"
EXCEPTIONS = ["Warning", "Error", "InterfaceError", "DatabaseError", "DataError",
              "OperationalError", "IntegrityError", "InternalError", "ProgrammingError",
              "NotSupportedError"]


@pytest.fixture
def con(tmp_path: Path) -> Iterator[Connection]:
    with connect(str(tmp_path / "shop.db")) as connection:
        yield connection


@pytest.fixture
def cur(con: Connection) -> mlsql.dbapi.Cursor:
    cursor = con.cursor()
    cursor.execute("CREATE TABLE t(a INTEGER PRIMARY KEY, b VARCHAR)")
    con.commit()
    return cursor


def count(con: Connection) -> int:
    ((found,),) = con.cursor().execute("SELECT count(*) FROM t").fetchall()
    return int(found)


# Names


def test_globals_and_exceptions(con: Connection) -> None:
    assert (mlsql.dbapi.apilevel, mlsql.dbapi.paramstyle) == ("2.0", "qmark")
    assert mlsql.dbapi.threadsafety == 2
    for name in EXCEPTIONS:
        theirs = getattr(mlsql.dbapi, name)
        assert getattr(con, name) is theirs is getattr(errors, name)
    with mlsql.connect() as session:
        assert session.ProgrammingError is mlsql.ProgrammingError
        assert session.cursor().execute("SELECT 1").fetchone() == (1,)


@pytest.mark.parametrize(("sql", "kind"), [
    ("'x'", STRING), ("'a'::ENUM('a')", STRING), ("1", NUMBER), ("1.5", NUMBER), ("true", NUMBER),
    ("1::HUGEINT", NUMBER), ("now()", DATETIME), ("DATE '2020-01-01'", DATETIME),
    ("TIME '10:00:00'", DATETIME), ("INTERVAL 1 day", DATETIME), ("''::BLOB", BINARY),
    ("[1]", None), ("{'a': 1}", None)])
def test_types_of_columns(cur: Any, sql: str, kind: Any) -> None:
    (column,) = cur.execute(f"SELECT {sql} AS c").description
    assert (column[0], len(column)) == ("c", 7)
    kinds = [k for k in (STRING, NUMBER, DATETIME, BINARY) if column[1] == k]
    assert kinds == ([] if kind is None else [kind])


def test_decimals_have_their_precision(cur: Any) -> None:
    assert cur.execute("SELECT 1.50 AS d").description == [
        ("d", "DECIMAL(3,2)", None, None, 3, 2, None)]
    assert cur.fetchone() == (Decimal("1.50"),)


# Rows


def test_description_and_rowcount(cur: Any) -> None:
    def seen(sql: str, parameters: Any = None) -> Any:
        cur.execute(sql, parameters)
        return cur.description and [c[0] for c in cur.description], cur.rowcount

    assert (cur.connection.cursor().description, cur.connection.cursor().rowcount) == (None, -1)
    assert seen("INSERT INTO t VALUES (1, 'x'), (2, 'y')") == (None, 2)
    assert seen("UPDATE t SET b = ? WHERE a = ?", ("z", 1)) == (None, 1)
    assert seen("INSERT INTO t VALUES (3, 'q') RETURNING a") == (["a"], 1)
    assert seen("WITH w AS (SELECT 2 AS x) DELETE FROM t WHERE a IN (FROM w)") == (None, 1)
    assert seen("CREATE TABLE u AS FROM t") == (None, 2)
    assert seen("CREATE TABLE v(a INT)") == (None, -1)
    assert seen("SET threads = 2") == (None, -1)
    assert seen("SET cache = false") == (None, -1)
    assert seen("SELECT 1 AS \"Count\"") == (["Count"], 1)
    assert seen("FROM t") == (["a", "b"], 2)
    assert seen("SELECT 1 WHERE false") == (["1"], 0)
    assert seen("EXPLAIN SELECT 1")[0] is not None


def test_fetching(cur: Any) -> None:
    with pytest.raises(errors.InterfaceError, match="execute a statement first"):
        cur.connection.cursor().fetchone()
    cur.execute("SELECT range FROM range(7)")
    assert cur.arraysize == 1 and cur.fetchmany() == [(0,)]
    cur.arraysize = 2
    assert cur.fetchmany() == [(1,), (2,)] and cur.fetchmany(1) == [(3,)]
    assert next(iter(cur)) == (4,) and cur.fetchall() == [(5,), (6,)]
    for _ in range(2):
        assert (cur.fetchone(), cur.fetchmany(3), cur.fetchall(), list(cur)) == (None, [], [], [])
    cur.execute("INSERT INTO t VALUES (1, 'x')")
    for fetch in (cur.fetchone, cur.fetchmany, cur.fetchall):
        with pytest.raises(errors.InterfaceError, match="gives none"):
            fetch()


def test_a_failed_statement_leaves_no_old_rows(cur: Any) -> None:
    cur.execute("SELECT 1")
    with pytest.raises(errors.ProgrammingError):
        cur.execute("SELECT nope")
    assert cur.description is None and cur.rowcount == -1
    with pytest.raises(errors.InterfaceError):
        cur.fetchone()


def test_executemany(cur: Any, con: Connection) -> None:
    cur.executemany("INSERT INTO t VALUES (?, ?)", [(i, str(i)) for i in range(3000)])
    assert cur.rowcount == 3000 == count(con) and cur.description is None
    cur.executemany("UPDATE t SET b = $v WHERE a < $n", [{"v": "x", "n": 5}, {"v": "y", "n": 3}])
    assert cur.rowcount == 8
    cur.executemany("INSERT INTO t (b, a) VALUES (upper(?::VARCHAR), ? + 5000)", iter([("q", 1)]))
    assert cur.execute("SELECT b FROM t WHERE a = 5001").fetchall() == [("Q",)]
    cur.executemany("INSERT INTO t VALUES (?, 'v') ON CONFLICT DO NOTHING", [(1,), (1,), (9999,)])
    assert cur.rowcount == 1
    cur.executemany("INSERT INTO t VALUES (?, ?)", [])
    assert cur.rowcount == -1
    with pytest.raises(errors.ProgrammingError, match="single statement"):
        cur.executemany("SELECT ?; SELECT ?", [(1,)])
    with pytest.raises(errors.Error):
        cur.executemany("INSERT INTO t VALUES (?, ?)", [(8000, "a"), (8001,)])


def test_executemany_is_all_or_nothing(tmp_path: Path) -> None:
    with mlsql.connect() as session:
        session.execute("CREATE TABLE t(a INT PRIMARY KEY)")
        with pytest.raises(errors.IntegrityError):
            session.cursor().executemany("INSERT INTO t SELECT ?", [(1,), (2,), (1,)])
        assert session.execute("FROM t").fetchall() == []


# Transactions


def test_what_is_written_waits_for_commit(tmp_path: Path) -> None:
    path = str(tmp_path / "two.db")
    with connect(path) as one, connect(path) as two:
        one.cursor().execute("CREATE TABLE t(a INT)")
        with pytest.raises(errors.ProgrammingError):
            two.cursor().execute("FROM t")
        one.commit()
        one.cursor().execute("INSERT INTO t VALUES (1)")
        assert (count(one), count(two)) == (1, 0)
        one.rollback()
        assert count(one) == 0
        one.cursor().execute("INSERT INTO t VALUES (1)")
        one.commit()
        assert (count(one), count(two)) == (1, 1)


def test_rollback_and_commit_with_nothing(con: Connection) -> None:
    for _ in range(2):
        con.rollback()
        con.commit()


def test_closing_rolls_back_and_leaving_commits(tmp_path: Path) -> None:
    path = str(tmp_path / "c.db")
    connection = connect(path)
    connection.cursor().execute("CREATE TABLE t(a INT)")
    connection.close()
    with connect(path) as connection:
        connection.cursor().execute("CREATE TABLE t(a INT)")
    with pytest.raises(ZeroDivisionError), connect(path) as connection:
        connection.cursor().execute("INSERT INTO t VALUES (1)")
        raise ZeroDivisionError
    with connect(path) as connection:
        assert count(connection) == 0


def test_autocommit(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with connect(path, autocommit=True) as one, connect(path) as two:
        one.cursor().execute("CREATE TABLE t(a INT)")
        assert count(two) == 0 and one.autocommit and not two.autocommit
        two.cursor().execute("INSERT INTO t VALUES (1)")
        two.autocommit = True
        assert count(one) == 1
        one.cursor().execute("BEGIN")
        one.cursor().execute("DELETE FROM t")
        one.rollback()
        assert count(two) == 1


def test_a_failed_query_leaves_nothing_to_roll_back(cur: Any, con: Connection) -> None:
    for wrong in ("SELECT nope", "SELECT 'x'::INT", "INSERT INTO t VALUES ('x', 1)"):
        with pytest.raises(errors.Error):
            cur.execute(wrong)
        cur.execute("INSERT INTO t VALUES (1, 'x')")
        con.rollback()
    cur.execute("INSERT INTO t VALUES (1, 'x')")
    with pytest.raises(errors.IntegrityError):
        cur.execute("INSERT INTO t VALUES (1, 'again')")
    with pytest.raises(errors.OperationalError, match="ROLLBACK"):
        cur.execute("SELECT 1")
    con.rollback()
    assert cur.execute("SELECT 1").fetchone() == (1,) and count(con) == 0


def test_models_inside_transactions(tmp_path: Path) -> None:
    path = str(tmp_path / "m.db")
    with connect(path) as con:
        con.register_model(lambda xs: [x * x for x in xs], name="sq", task="predict",
                           input="BIGINT", output="BIGINT")
        cur = con.cursor()
        cur.execute("CREATE TABLE t(a BIGINT)")
        con.commit()
        cur.execute("INSERT INTO t SELECT sq(x) FROM range(3) r(x)")
        assert (cur.rowcount, count(con)) == (3, 3)
        con.rollback()
        assert count(con) == 0
        # An argument inside a lambda: the statement runs more than once.
        cur.execute("INSERT INTO t SELECT unnest(list_transform([1, 2], x -> sq(x)))")
        assert cur.rowcount == 2
        con.rollback()
        cur.execute("INSERT INTO t SELECT unnest(list_transform([1, 2], x -> sq(x)))")
        con.commit()
    with connect(path) as con:
        assert con.cursor().execute("FROM t ORDER BY 1").fetchall() == [(1,), (4,)]


# Errors


@pytest.mark.parametrize("sql", [
    "SELEC 1", "SELECT nope FROM t", "SELECT * FROM gone", "SELECT lenght(b) FROM t",
    "SELECT a FROM t WHERE", "SELECT CONTAINS(frame, 'brid') FROM '{video}'"])
def test_what_is_wrong_has_its_place(cur: Any, tmp_path: Path, sql: str) -> None:
    sql = sql.format(video=make_video(tmp_path))
    with pytest.raises(errors.ProgrammingError) as caught:
        cur.execute(sql)
    if "brid" in sql:
        assert "did you mean" in str(caught.value) and "'bird'" in str(caught.value)
    *_, source, caret = str(caught.value).rstrip().splitlines()
    assert source.startswith("LINE 1: ") and set(caret.strip()) == {"^"}
    assert caught.value.line == 1
    assert caught.value.column == caret.index("^") - len("LINE 1: ") + 1


def test_the_place_in_a_long_statement(cur: Any) -> None:
    sql = "SELECT 1,\n  " + ", ".join(["2"] * 200) + ", nope\nFROM t"
    with pytest.raises(errors.ProgrammingError) as caught:
        cur.execute(sql)
    line = sql.splitlines()[1]
    assert (caught.value.line, caught.value.column) == (2, line.index("nope") + 1)


def test_a_bad_row(cur: Any, tmp_path: Path) -> None:
    with pytest.raises(errors.DataError):
        cur.execute("SELECT i::INT FROM (VALUES ('1'), ('x')) t(i)")
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    with pytest.raises(errors.DataError, match=r"broken\.jpg"):
        cur.execute(f"SELECT CONTAINS(IMAGE('{tmp_path}/broken.jpg'), 'bird')")


def test_limits_are_operational_errors(tmp_path: Path) -> None:
    with connect(config={"statement_timeout": 0.3}) as con, \
            pytest.raises(errors.OperationalError, match="statement_timeout"):
        con.cursor().execute(LONG)
    with connect(config={"memory_limit": "20MB", "max_temp_directory_size": "1MB"}) as con, \
            pytest.raises(errors.OperationalError, match=r"[Oo]ut of [Mm]emory|memory"):
        con.cursor().execute("SELECT list(range) FROM range(30000000)")


def test_interrupt_is_an_operational_error(con: Connection) -> None:
    threading.Timer(0.4, con.interrupt).start()
    started = time.monotonic()
    with pytest.raises(errors.OperationalError):
        con.cursor().execute(LONG)
    assert time.monotonic() - started < 10
    assert con.cursor().execute("SELECT 1").fetchone() == (1,)


def test_ctrl_c_ends_a_statement(con: Connection) -> None:
    threading.Timer(0.4, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        con.cursor().execute(LONG)
    assert con.cursor().execute("SELECT 1").fetchone() == (1,)


def test_every_error_of_duckdb_has_one_of_ours() -> None:
    theirs = [kind for kind in vars(duckdb).values()
              if isinstance(kind, type) and issubclass(kind, duckdb.Error)]
    assert len(theirs) > 30
    vague = [kind.__name__ for kind in theirs
             if type(translated(kind("text"))) is errors.DatabaseError]
    assert sorted(vague) == ["DatabaseError", "Error"]
    assert type(translated(duckdb.InterruptException("x"))) is errors.Interrupted


@pytest.mark.parametrize(("raised", "ours"), [
    (MemoryError(), errors.OperationalError), (OSError("disk"), errors.OperationalError),
    (RecursionError(), errors.ProgrammingError), (KeyError("x"), errors.InternalError),
    (errors.DataError("x"), errors.DataError), (duckdb.ConversionException("x"), errors.DataError),
    (RuntimeError("Query interrupted"), errors.Interrupted)])
def test_nothing_else_escapes(raised: Exception, ours: type[errors.Error]) -> None:
    with pytest.raises(errors.Error) as caught, only_own_errors():
        raise raised
    assert type(caught.value) is ours


def test_the_death_of_a_worker_is_no_fault_of_the_row() -> None:
    said = "the worker's process died 3 times over this input"
    row = RowError(0, 0, "eye", said, "a.mp4", 3, errors.OperationalError(said))
    assert type(row_failed(row)) is errors.OperationalError
    assert str(row_failed(row)) == f"model 'eye' failed on a.mp4, frame 3: {said}"
    row = RowError(0, 0, "eye", "ValueError: x", "a.mp4", 3, ValueError("x"))
    assert type(row_failed(row)) is errors.ModelOutputError


def test_deep_statements(cur: Any) -> None:
    with pytest.raises(errors.ProgrammingError, match="depth"):
        cur.execute("SELECT " + "(" * 3000 + "1" + ")" * 3000)
    with pytest.raises(errors.ProgrammingError, match="too deeply"):
        cur.execute("SELECT " + "(" * 300 + "1" + ")" * 300 + " FROM models()")
    cur.connection.rollback()
    assert cur.execute("SELECT 1").fetchone() == (1,)


# Ends, threads and forks


def test_use_after_close(tmp_path: Path) -> None:
    con = connect()
    cur = con.cursor()
    cur.execute("SELECT 1")
    other = con.cursor()
    other.close()
    with pytest.raises(errors.InterfaceError, match="cursor is closed"):
        other.execute("SELECT 1")
    con.close()
    uses = [lambda: cur.execute("SELECT 1"), cur.fetchall, con.cursor, con.commit, con.rollback,
            con.close, lambda: con.execute("SELECT 1"), lambda: con.sql("SELECT 1"),
            lambda: cur.executemany("SELECT ?", [(1,)])]
    for use in uses:
        with pytest.raises(errors.InterfaceError, match="connection is closed"):
            use()
    with mlsql.connect() as session:
        session.close()  # and once more when it is left
    with con.cursor() if not con.closed else connect().cursor() as cursor:
        assert cursor.execute("SELECT 1").fetchone() == (1,)


def test_two_cursors_in_two_threads(con: Connection, tmp_path: Path) -> None:
    video = make_video(tmp_path)
    con.register_model(lambda ps: [see(p) for p in ps], name="eye", task="detect",
                       labels=["cat", "dog", "bird"])
    found: dict[int, list[Any]] = {}

    def work(number: int) -> None:
        cur = con.cursor()
        sql = f"SELECT frame_id + ? FROM '{video}' WHERE CONTAINS(frame, 'cat', model => 'eye')"
        found[number] = []
        for _ in range(3):
            cur.execute(sql if number % 2 else "SELECT range + ? FROM range(5000)", [number])
            while rows := cur.fetchmany(700):
                found[number].append(len(rows))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [sum(found[n]) for n in range(4)] == [15000, 15, 15000, 15]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_use_after_fork_is_refused(con: Connection) -> None:
    cur = con.cursor()
    cur.execute("SELECT 1")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        said = []
        for use in (lambda: cur.execute("SELECT 1"), cur.fetchall, con.commit, con.cursor):
            try:
                use()
            except errors.InterfaceError as error:
                said.append("after a fork" in str(error))
        os.write(writing, repr(said).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reading, 99) == b"[True, True, True, True]"
    os.close(reading)
    os.close(writing)
    assert cur.fetchall() == [(1,)]


# With a real model


def test_a_model_through_a_cursor(con: Connection, bikes: Path) -> None:
    cur = con.cursor()
    cur.execute("SELECT frame, COUNT_OBJECTS(frame, ?), DETECT(frame) FROM read_video(?) "
                "WHERE frame_id = ?", ["person", str(bikes), 120])
    (frame, people, found), = cur.fetchall()
    assert isinstance(frame, mlsql.Image) and people == 2
    assert {"label", "score", "x1", "y1", "x2", "y2"} == set(found[0])
    assert cur.result.stats.calls == 1
    cur.execute("SELECT COUNT_OBJECTS(?, 'person')", [frame])
    assert cur.fetchone() == (2,)
    drawn = frame.annotate(found)
    assert drawn.numpy().shape == frame.numpy().shape
    assert (drawn.numpy() != frame.numpy()).any()
