"""The command: what it reads and writes, and how it ends."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlsql.shell.complaint import complaint
from mlsql.shell.statements import Statement, is_complete, split
from tests.terminal import Terminal

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def command(root: Path) -> list[str]:
    return [sys.executable, "-m", "mlsql"]


@pytest.fixture
def environment(root: Path) -> dict[str, str]:
    path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}


@pytest.fixture
def mlsql(command: list[str], environment: dict[str, str], tmp_path: Path) -> Run:
    """Run the command in an empty folder, with `stdin` as its input."""

    def run(*words: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([*command, *words], input=stdin, capture_output=True, text=True,
                              env={**environment, **variables}, cwd=tmp_path, timeout=60)

    return run


# --- what is run ------------------------------------------------------------------------------


def test_one_statement(mlsql: Run) -> None:
    done = mlsql("-c", "SELECT 42 AS answer")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == """\
┌─────────┐
│ answer  │
│ integer │
├─────────┤
│      42 │
└─────────┘
(1 row)
"""


def test_commands_run_in_order_on_one_session(mlsql: Run) -> None:
    done = mlsql("--format", "csv", "--no-header", "-c", "CREATE TABLE t (i INT)",
                 "-c", "INSERT INTO t VALUES (1), (2); SELECT sum(i) FROM t", "-c", "SELECT 'x;y'")
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\nx;y\n", "")


def test_standard_input(mlsql: Run) -> None:
    done = mlsql("--format", "csv", stdin="-- a comment;\nSELECT 1 AS a;\n\nSELECT 2 AS a\n")
    assert (done.returncode, done.stdout) == (0, "a\n1\na\n2\n")
    assert mlsql("-f", "-", "--format", "csv", stdin="SELECT 3 AS a").stdout == "a\n3\n"
    assert mlsql(stdin="").stdout == ""


def test_a_file(mlsql: Run, tmp_path: Path) -> None:
    (tmp_path / "a b.sql").write_text("\ufeffSELECT 'é' AS a;", encoding="utf-8")
    assert mlsql("-f", "a b.sql", "--format", "csv").stdout == "a\né\n"
    done = mlsql("-f", "absent.sql")
    assert done.returncode == 1
    assert done.stderr == "error: cannot read 'absent.sql': No such file or directory\n"
    (tmp_path / "latin.sql").write_bytes(b"SELECT '\xe9'")
    done = mlsql("-f", "latin.sql")
    assert done.returncode == 1
    assert "'latin.sql' is not UTF-8" in done.stderr


def test_a_database_file(mlsql: Run) -> None:
    assert mlsql("shop.db", "-c", "CREATE TABLE t AS SELECT 7 AS i").returncode == 0
    assert mlsql("shop.db", "-c", "FROM t", "--format", "csv").stdout == "i\n7\n"
    done = mlsql("shop.db", "--readonly", "-c", "DROP TABLE t")
    assert done.returncode == 1
    assert "read-only" in done.stderr
    done = mlsql("no/such/folder/x.db", "-c", "SELECT 1")
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1


# --- how rows are written ---------------------------------------------------------------------

ROWS = """SELECT * FROM (VALUES (1, 'a', 1.5), (2, NULL, NULL), (3, 'NULL', 2.25),
          (4, '', 0), (5, 'x,"y"\n|z', -1)) t(i, s, d) ORDER BY i"""


def test_csv_is_read_back_by_others(mlsql: Run) -> None:
    out = mlsql("--format", "csv", "-c", ROWS).stdout
    assert list(csv.reader(io.StringIO(out, newline=""))) == [
        ["i", "s", "d"], ["1", "a", "1.50"], ["2", "", ""], ["3", "NULL", "2.25"],
        ["4", "", "0.00"], ["5", 'x,"y"\n|z', "-1.00"]]
    assert '\n4,"",0.00\n' in out
    assert "\n2,,\n" in out
    quoted = mlsql("--format", "csv", "--null-string", "NULL", "-c", ROWS).stdout
    assert "\n2,NULL,NULL\n3,\"NULL\",2.25\n4,,0.00\n" in quoted


def test_json(mlsql: Run) -> None:
    wanted = [{"i": 1, "s": "a", "d": 1.5}, {"i": 2, "s": None, "d": None},
              {"i": 3, "s": "NULL", "d": 2.25}, {"i": 4, "s": "", "d": 0},
              {"i": 5, "s": 'x,"y"\n|z', "d": -1}]
    assert json.loads(mlsql("--format", "json", "-c", ROWS).stdout) == wanted
    lines = mlsql("--format", "jsonl", "-c", ROWS).stdout.splitlines()
    assert [json.loads(line) for line in lines] == wanted
    assert mlsql("--format", "json", "-c", "SELECT 1 WHERE false").stdout == "[]\n"


def test_json_of_every_kind_of_value(mlsql: Run) -> None:
    sql = """SELECT 1 AS a, 2 AS a, [1.5::FLOAT, NULL] AS l, {'x': DATE '2020-01-01'} AS s,
             MAP {1: 'one'} AS m, 'nan'::DOUBLE AS nan, '\\x00'::BLOB AS b, true AS t,
             INTERVAL 1 month AS iv, 12345678901234567890123456789::HUGEINT AS h,
             {'uri': 'd/a.mp4', 'frame': 3::BIGINT, 'data': NULL::BLOB} AS f"""
    assert json.loads(mlsql("--format", "jsonl", "-c", sql).stdout) == {
        "a": 1, "a_1": 2, "l": [1.5, None], "s": {"x": "2020-01-01"}, "m": {"1": "one"},
        "nan": "nan", "b": "AA==", "t": True, "iv": "1 month",
        "h": 12345678901234567890123456789,
        "f": {"uri": "d/a.mp4", "frame": 3, "data": None}}


def test_markdown_and_line(mlsql: Run) -> None:
    sql = "SELECT 'a|b' AS x, NULL AS y"
    assert mlsql("--format", "markdown", "-c", sql).stdout == (
        "| x | y |\n| --- | --- |\n| a\\|b | NULL |\n")
    assert mlsql("--format", "line", "-c", f"{sql} UNION ALL SELECT 'c', 1").stdout == (
        "x = a|b\ny = NULL\n\nx = c\ny = 1\n")


def test_a_table_is_complete_when_piped(mlsql: Run) -> None:
    out = mlsql("-c", "SELECT range AS i, repeat('x', 300) AS s FROM range(100)").stdout
    assert out.count("x" * 300) == 100
    assert out.endswith("(100 rows)\n")
    assert mlsql("-c", "SELECT 1 AS a", "--no-header").stdout == "┌───┐\n│ 1 │\n└───┘\n(1 row)\n"


def test_a_table_is_plain_where_the_encoding_is(mlsql: Run) -> None:
    out = mlsql("-c", "SELECT 1 AS a", PYTHONIOENCODING="ascii").stdout
    assert out.startswith("+---------+\n| a       |\n")


def test_values_cannot_steer_the_terminal(mlsql: Run) -> None:
    for words in ([], ["--format", "line"], ["--format", "markdown"]):
        out = mlsql(*words, "-c", "SELECT chr(27) || '[31mred' AS \"\x1b]0;t\x07\"").stdout
        assert "\x1b" not in out and "\x07" not in out
        assert "x1b" in out
    error = mlsql("-c", "SELECT * FROM \"\x1b[31mx\"").stderr
    assert "\x1b" not in error


# --- how it ends ------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [["--format", "xml"], ["--nonsense"], ["a", "b"], ["-c"]])
def test_wrong_usage(mlsql: Run, words: Sequence[str]) -> None:
    done = mlsql(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: mlsql")


def test_version_and_help(mlsql: Run) -> None:
    assert mlsql("--version").stdout == "mlsql 0.1.0\n"
    shown = mlsql("--help").stdout
    for option in ("-c", "-f", "--format", "--no-header", "--null-string", "--readonly", "--timer"):
        assert option in shown


@pytest.mark.parametrize(("sql", "place", "pointed"), [
    ("SELECT lenght('a')", "(line 1, column 8)", "lenght"),
    ("SELECT 1;\n\n  SELECT 2; SELECT\n  1 + nope", "(line 4, column 7)", "nope"),
    ("SELECT 1; SELECT nope", "(line 1, column 18)", "nope"),
    ("SELECT '" + "x" * 200 + "', nope, '" + "y" * 200 + "'", "(line 1, column 212)", "nope"),
])
def test_an_error_points_at_its_place(mlsql: Run, sql: str, place: str, pointed: str) -> None:
    done = mlsql("-c", sql)
    assert done.returncode == 1
    head, source, caret = done.stderr.splitlines()
    assert head.startswith("error: ")
    assert head.endswith(place)
    assert source[caret.index("^"):].startswith(pointed)
    assert len(source) < 110


def test_a_syntax_error_has_a_place(mlsql: Run) -> None:
    done = mlsql("-c", "SELECT 1,\n  FROM FROM t")
    assert done.returncode == 1
    assert "line 2" in done.stderr.splitlines()[0]
    assert "^" in done.stderr.splitlines()[-1]


def test_nothing_runs_after_an_error(mlsql: Run) -> None:
    done = mlsql("--format", "csv", "-c", "SELECT 1 AS a; SELECT nope; SELECT 2 AS a",
                 "-c", "SELECT 3 AS a")
    assert (done.returncode, done.stdout) == (1, "a\n1\n")


def test_a_reader_that_leaves_early(command: list[str], environment: dict[str, str]) -> None:
    for form in ("csv", "table", "jsonl"):
        quoted = " ".join(f"'{word}'" for word in command)
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; {quoted} --format {form} "
                           "-c 'SELECT range AS i FROM range(300000)' | head -n 1"],
            capture_output=True, text=True, env=environment, timeout=60)
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.count("\n") == 1


def test_interrupted(command: list[str], environment: dict[str, str]) -> None:
    sql = "SELECT count(*) FROM range(3000000) a, range(3000000) b WHERE a.range + b.range = 7"
    process = subprocess.Popen([*command, "-c", "SELECT 1", "-c", sql], env=environment,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(7):
        process.stdout.readline()  # the first answer is out: the second statement is running
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    try:
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 130
    assert time.monotonic() - started < 3
    assert "Traceback" not in err


def test_the_timer_goes_to_standard_error(mlsql: Run) -> None:
    done = mlsql("--timer", "--format", "csv", "-c", "SELECT 1 AS a")
    assert done.stdout == "a\n1\n"
    assert done.stderr.endswith(" s\n")
    assert 0 < float(done.stderr.split()[0]) < 30


# --- on a terminal ----------------------------------------------------------------------------


def test_a_dumb_terminal(
    command: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    variables = {**environment, "TERM": "dumb", "NO_COLOR": "1", "HOME": str(tmp_path)}
    with Terminal(command, variables, tmp_path) as t:
        t.wait("mlsql>")
        t.enter("SELECT 1 +")
        t.enter("41 AS answer, 'a;b' AS s, NULL AS n;")
        t.wait("│      42 │ a;b     │ NULL │")
        t.enter("SELECT nope;")
        t.wait('error: Referenced column "nope"')
        t.enter(".nonsense")
        t.wait("no such command: .nonsense")
        t.type("\x04")
        assert t.ended() == 0
        assert re.search(rb"\x1b\[[\d;]*m", t.written) is None


# --- parts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("script", "statements"), [
    ("", []),
    (" ; ;; -- only a comment\n /* and; this */ ;", []),
    ("a; b", ["a", "b"]),
    ("a ';' b; c", ["a ';' b", "c"]),
    ("a 'it''s;' ; b", ["a 'it''s;'", "b"]),
    ("a e'\\';' ; b", ["a e'\\';'", "b"]),
    ("name'\\'; b", ["name'\\'", "b"]),
    ('a "x;""y" ; b', ['a "x;""y"', "b"]),
    ("a $$ ; $$ ; b", ["a $$ ; $$", "b"]),
    ("a $t$ ; $$ ; $t$ ; b", ["a $t$ ; $$ ; $t$", "b"]),
    ("a $1; b x$y$z;c", ["a $1", "b x$y$z", "c"]),
    ("a /* ; /* ; */ ; */ ; b", ["a /* ; /* ; */ ; */", "b"]),
    ("a -- ;\n; b", ["a -- ;", "b"]),
    ("-- why\na", ["-- why\na"]),
    ("a 'never closed; b", ["a 'never closed; b"]),
    ("a /* never closed; b", ["a /* never closed; b"]),
    ("a $$ never closed; b", ["a $$ never closed; b"]),
])
def test_where_statements_end(script: str, statements: list[str]) -> None:
    assert [s.text for s in split(script)] == statements


@given(st.text(alphabet="a;'\"$-/*e\\ \n", max_size=40))
def test_positions_are_those_of_the_script(script: str) -> None:
    lines = script.split("\n")
    for statement in split(script):
        first = statement.text.split("\n")[0]
        assert lines[statement.line - 1][statement.column - 1:].startswith(first)


def test_complete_statements() -> None:
    for script in ("", ";", "a;", "a; -- b", "a;\n\n"):
        assert is_complete(script), script
    for script in ("a", "a; b", "a 'x;", "a $$;", "a /* ;"):
        assert not is_complete(script), script


def test_an_error_without_a_place_is_one_line() -> None:
    statement = Statement("SELECT\n1", 3, 1, True)
    assert complaint(ValueError("a\n\n  b\x1b"), statement) == "error: a b\\x1b"
    assert complaint(ValueError(), None) == "error: ValueError"


# --- how fast it starts -----------------------------------------------------------------------


def seconds(words: Sequence[str], environment: dict[str, str]) -> float:
    started = time.perf_counter()
    subprocess.run(words, env=environment, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def test_it_starts_fast(command: list[str], environment: dict[str, str]) -> None:
    """Under twice `import duckdb, sqlglot` plus 100 ms; pairs, because the machine is shared."""
    plain = [sys.executable, "-c", "import duckdb, sqlglot"]
    ours = [*command, "-c", "SELECT 1"]
    for words in (plain, ours):
        seconds(words, environment)
    over: list[Any] = []
    for _ in range(4):
        over.append([seconds(ours, environment) - 2 * seconds(plain, environment)
                     for _ in range(3)])
        if statistics.median(over[-1]) < 0.1:
            return
    pytest.fail(f"seconds over twice the imports: {over}")


def test_a_plain_query_needs_no_arrow(
    command: list[str], environment: dict[str, str]
) -> None:
    words = [command[0], "-X", "importtime", *command[1:], "-c", "SELECT 1 AS a, 'x' AS b"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    loaded = {line.rpartition("|")[2].strip().partition(".")[0]
              for line in done.stderr.splitlines()}
    assert "duckdb" in loaded
    assert not loaded & {"pyarrow", "numpy", "pandas", "torch", "cv2", "av", "ray", "PIL"}
