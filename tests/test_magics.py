"""The magics, in an IPython shell of this process."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import mlsql
from mlsql.magics.line import OPTIONS, read, usage
from mlsql.magics.variables import bound, inserted


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteractiveShell]:
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.ipython_dir = str(tmp_path_factory.mktemp("ipython"))
    found = InteractiveShell.instance(config=config)
    found.run_line_magic("load_ext", "mlsql")
    yield found
    InteractiveShell.clear_instance()


@pytest.fixture(autouse=True)
def fresh(shell: InteractiveShell) -> Iterator[None]:
    """No variables of an earlier test, the settings as they are at first, a database of its own."""
    shell.reset(new_session=False)
    shell.user_ns["con"] = mlsql.connect(config={"cache": False})
    magic = magic_of(shell)
    magic.autopandas = magic.autopolars = False
    magic.displaylimit, magic.autolimit, magic.feedback = 20, 0, 0
    run(shell, "%mlsql con")
    magic.feedback = 1
    yield
    shell.user_ns["con"].close()


def magic_of(shell: InteractiveShell) -> Any:
    return next(c for c in shell.configurables if type(c).__name__ == "MlsqlMagic")


def run(shell: InteractiveShell, code: str) -> Any:
    """What a cell gives; what it raises is raised."""
    done = shell.run_cell(code)
    done.raise_error()
    return done.result


def fail(shell: InteractiveShell, code: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The lines that a notebook shows of a cell that fails."""
    capsys.readouterr()
    done = shell.run_cell(code)
    assert isinstance(done.error_in_exec, mlsql.Error)
    return capsys.readouterr().out.rstrip("\n").split("\n")


# --- a line, a cell, and where their rows go ----------------------------------------------


def test_a_line_and_a_cell(shell: InteractiveShell) -> None:
    assert run(shell, "%mlsql SELECT 6 * 7 AS answer").fetchall() == [(42,)]
    assert run(shell, "%%mlsql\nSELECT 6\n  * 7 AS answer;\n").fetchall() == [(42,)]
    assert run(shell, "%%mlsql SELECT 6\n* 7").fetchall() == [(42,)]
    assert run(shell, "%sql SELECT 1").fetchall() == [(1,)]
    assert run(shell, "%%sql\nSELECT 1").fetchall() == [(1,)]
    assert run(shell, "x = %mlsql SELECT 5\nx.fetchall()") == [(5,)]
    assert run(shell, "%mlsql") is None
    assert run(shell, "%%mlsql\n-- nothing\n") is None


@pytest.mark.parametrize("code", [
    "%mlsql r << SELECT 5", "%%mlsql r <<\nSELECT 5", "%%mlsql\nr << SELECT 5",
    "%%mlsql con r <<\nSELECT 5", "%mlsql r<<SELECT 5"])
def test_a_variable_takes_the_result(shell: InteractiveShell, code: str) -> None:
    assert run(shell, code) is None
    assert shell.user_ns["r"].fetchall() == [(5,)]


def test_a_variable_takes_the_result_and_it_is_shown(shell: InteractiveShell) -> None:
    assert run(shell, "%mlsql r = << SELECT 5").fetchall() == [(5,)]
    assert shell.user_ns["r"].fetchall() == []  # the same result, its rows fetched


def test_the_last_of_several_statements_counts(shell: InteractiveShell) -> None:
    rows = run(shell, "%%mlsql\nCREATE TABLE t AS SELECT 'a;b' AS s;\n"
                      "INSERT INTO t VALUES ('c'); -- ; \nSELECT count(*) FROM t")
    assert rows.fetchall() == [(2,)]
    assert run(shell, "%%mlsql\nSELECT 1;\nDROP TABLE t") is None


def test_what_is_done_is_said(shell: InteractiveShell, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    run(shell, "%%mlsql\nCREATE TABLE t(i INT);\nINSERT INTO t FROM range(3)")
    said = capsys.readouterr().out
    assert re.fullmatch(r"OK · \d+\.\d\d s\nOK · 3 rows changed · \d+\.\d\d s\n", said)
    run(shell, "%config MlsqlMagic.feedback = 0")
    run(shell, "%mlsql DROP TABLE t")
    assert capsys.readouterr().out == ""
    run(shell, "%config MlsqlMagic.feedback = 2")
    run(shell, "%mlsql r << SELECT 1 AS a")
    assert capsys.readouterr().out == "SELECT 1 AS a\n"


# --- from the notebook into the statement -------------------------------------------------


def test_values_are_bound(shell: InteractiveShell) -> None:
    run(shell, "import numpy, datetime, pathlib\n"
               "n = 3; s = \"o'clock\"; none = None; l = [1, 2]; f = numpy.float32(.5)\n"
               "d = datetime.date(2026, 1, 2); p = pathlib.Path('a.mp4')")
    assert run(shell, "%mlsql SELECT :n + 1, :s, :none, :l, :f, :d, :p, $n").fetchall() == [
        (4, "o'clock", None, [1, 2], 0.5, shell.user_ns["d"], "a.mp4", 3)]
    assert run(shell, "%%mlsql\nSELECT :n;\nSELECT :s LIKE 'o%'").fetchall() == [(True,)]


def test_the_variables_of_a_function_are_seen(shell: InteractiveShell) -> None:
    run(shell, "def f(n):\n"
               "    import pandas\n"
               "    inside = pandas.DataFrame({'a': [n]})\n"
               "    found = get_ipython().run_line_magic('mlsql', 'SELECT a + :n FROM inside')\n"
               "    return found.fetchall()")
    assert run(shell, "f(4)") == [(8,)]


NAMES = {"x": 1, "n": 2, "k": 3, "l": 4, "Größe": 5, "INT": 6}


@pytest.mark.parametrize("sql", [
    "SELECT a::INT, 'b'::n, (1)::n", "SELECT f(a := 1, b:=x)", "SELECT l[1:n], l[:n], l[n:]",
    "SELECT {'a':x, 'b': n, k:n}", "SELECT MAP {'a':x}", "SELECT $$ :x $$, $q$ :n $q$",
    "SELECT ':x', \":n\" -- :x\n", "/* :x */ SELECT 5 % 3, '%s', '100%'", "SELECT a:n",
    "SELECT list_transform(l, lambda x: x + 1)", "SELECT '{x}', '{}'", "SELECT e'\\':x'",
    "SELECT json->'$.x', '12:30:x'", "SELECT ts:n FROM t", "SELECT 'not closed :x", "SELECT $1"])
def test_what_only_looks_like_a_variable_is_left_alone(sql: str) -> None:
    assert bound(sql, NAMES) == (sql, None)
    assert inserted(sql, NAMES) == sql


@pytest.mark.parametrize(("sql", "text", "values"), [
    ("SELECT :x", "SELECT $x", {"x": 1}), ("SELECT a=:x", "SELECT a=$x", {"x": 1}),
    ("SELECT (:x,:n)", "SELECT ($x,$n)", {"x": 1, "n": 2}),
    ("SELECT :x::INT", "SELECT $x::INT", {"x": 1}), ("SELECT [:x, :n]", "SELECT [$x, $n]",
                                                     {"x": 1, "n": 2}),
    ("SELECT {'a': :x}", "SELECT {'a': $x}", {"x": 1}),
    ("FROM t LIMIT :n", "FROM t LIMIT $n", {"n": 2}), ("SELECT 5 %:n", "SELECT 5 %$n", {"n": 2}),
    ("SELECT f(a => :x)", "SELECT f(a => $x)", {"x": 1}),
    ("SELECT f(a := :x)", "SELECT f(a := $x)", {"x": 1}),
    ("SELECT :Größe", "SELECT $Größe", {"Größe": 5}),
    ("SELECT 'é', :x", "SELECT 'é', $x", {"x": 1}),
    ("SELECT l[:n]", "SELECT l[:n]", None), ("SELECT $$:n$$, :x", "SELECT $$:n$$, $x", {"x": 1}),
])
def test_where_a_colon_binds(sql: str, text: str, values: dict[str, int] | None) -> None:
    assert bound(sql, NAMES) == (text, values)


def test_text_is_inserted(shell: InteractiveShell) -> None:
    run(shell, "t = 'range'; columns = ['a', 'b']; d = {'k': 'v'}")
    assert run(shell, "%mlsql FROM {{t}}({{1 + 1}})").fetchall() == [(0,), (1,)]
    assert run(shell, "%mlsql SELECT 1 AS {{', '.join(columns[:1])}}").columns == ["a"]
    assert run(shell, "%mlsql SELECT '{{d['k']}}', '{{ }}', {'a': {'b': 1}}.a.b"
               ).fetchall() == [("v", "{{ }}", 1)]
    assert run(shell, "%mlsql SELECT '{t} $t'").fetchall() == [("{t} $t",)]


def test_frames_and_results_are_tables(shell: InteractiveShell) -> None:
    run(shell, "import pandas, polars, pyarrow\n"
               "pd_frame = pandas.DataFrame({'i': [1, 2]})\n"
               "pl_frame = polars.DataFrame({'i': [2, 3]})\n"
               "lazy = pl_frame.lazy()\n"
               "arrow_table = pyarrow.table({'i': [3, 4]})\n"
               "i = pandas.Series([9])")
    run(shell, "%mlsql earlier << FROM arrow_table")
    rows = run(shell, "%mlsql SELECT sum(i) FROM (FROM pd_frame UNION ALL FROM pl_frame "
                      "UNION ALL FROM lazy UNION ALL FROM arrow_table "
                      "UNION ALL FROM earlier)")
    assert rows.fetchall() == [(3 + 5 + 5 + 7 + 7,)]
    run(shell, "%mlsql CREATE TABLE pd_frame AS SELECT 'of the database' AS i")
    assert run(shell, "%mlsql FROM pd_frame").fetchall() == [("of the database",)]


# --- errors -------------------------------------------------------------------------------


def test_an_error_is_a_message_and_a_caret(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fail(shell, "%%mlsql\nSELECT 1;\nSELECT nope\nFROM range(3)", capsys) == [
        'error: Referenced column "nope" not found in FROM clause! Candidate bindings: "range" '
        "(line 2, column 8)", "  SELECT nope", "         ^"]
    assert fail(shell, "%mlsql SELEC 1", capsys)[1:] == ["  SELEC 1", "  ^"]


def test_an_unknown_label_has_the_nearest(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], bikes: Path
) -> None:
    shell.user_ns["bikes"] = bikes
    said = fail(shell, "%mlsql SELECT CONTAINS(frame, 'brid') FROM '{{bikes}}'", capsys)
    assert said[0].startswith("error: unknown label 'brid'")
    assert "did you mean" in said[0] and "'bird'" in said[0] and len(said) <= 3


@pytest.mark.parametrize(("code", "said"), [
    ("%mlsql SELECT :lable", "error: unknown variable 'lable' in :lable: did you mean 'label'?"),
    ("%mlsql SELECT {{lable}}",
     "error: unknown variable 'lable' in {{lable}}: did you mean 'label'?"),
    ("%mlsql SELECT {{label[9]}}", "error: {{label[9]}}: IndexError: string index out of range"),
    ("%mlsql --hlep", "error: unknown option --hlep: did you mean --help?"),
    ("%mlsql -q SELECT 1", "error: unknown option -q: %mlsql --help lists them"),
    ("%mlsql -f", "error: -f wants a value: PATH"),
    ("%mlsql -f none.sql", "error: none.sql: No such file or directory"),
    ("%mlsql -l=3", "error: -l takes no value"),
    ("%mlsql -x no", "error: unknown connection 'no'"),
    ("%mlsql -A a SELECT 1", "error: -A and -a go with a connection"),
    ("%mlsql -a {x} mlsql://", "error: -a wants JSON"),
    ("%mlsql sqlite:///a.db", "error: sqlite:///a.db: mlsql opens mlsql:///file.db"),
    ("%mlsql -w no SELECT 1", "error: unknown kept query 'no'"),
    ("%mlsql -p labels", "error: unknown variable 'labels'"),
    ("%mlsql -p label", "error: label is a str: it has no rows for a table"),
])
def test_wrong_usage(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], code: str, said: str
) -> None:
    shell.user_ns["label"] = "bird"
    lines = fail(shell, code, capsys)
    assert lines[0].startswith(said)
    assert len(lines) == 1


def test_errors_of_the_python_api_can_be_caught(shell: InteractiveShell) -> None:
    code = ("import mlsql\ntry:\n    get_ipython().run_line_magic('mlsql', 'FROM nowhere')\n"
            "except mlsql.ProgrammingError as error:\n    caught = str(error)")
    run(shell, code)
    assert "nowhere" in shell.user_ns["caught"]


def test_a_lazy_result_that_fails_when_it_is_shown(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    lazy = shell.user_ns["con"].sql("SELECT '<b>' FROM nowhere")
    capsys.readouterr()
    data, _ = shell.display_formatter.format(lazy)
    assert capsys.readouterr() == ("", "")
    assert set(data) == {"text/html", "text/plain"}
    assert data["text/plain"].startswith("error: Catalog Error: Table with name nowhere")
    assert "&lt;b&gt;" in data["text/html"] and "<b>" not in data["text/html"]


# --- options and connections --------------------------------------------------------------


def test_connections(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shell.user_ns["folder"] = tmp_path
    path = tmp_path / "films.db"
    assert run(shell, f"%mlsql mlsql:///{path} CREATE TABLE t AS SELECT 7 AS i") is None
    assert run(shell, "%mlsql FROM t").fetchall() == [(7,)]
    assert run(shell, "%%mlsql con\nSELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
    run(shell, f"%mlsql -x mlsql:///{path}")
    config = '{"read_only": true, "batch_size": 3}'
    assert run(shell, f"%mlsql {path} -A films -a '{config}' FROM t").fetchall() == [(7,)]
    with pytest.raises(mlsql.Error, match="read-only"):
        run(shell, "%mlsql DROP TABLE t")
    batch = "%mlsql SELECT value FROM settings() WHERE name = 'batch_size'"
    assert run(shell, batch).fetchall() == [("3",)]
    capsys.readouterr()
    run(shell, "%mlsql -l")
    listed = capsys.readouterr().out.splitlines()
    assert f"* films  {path}" in listed and "  con  a variable" in listed
    run(shell, "%mlsql --close films")
    assert run(shell, "%mlsql con SELECT 1").fetchall() == [(1,)]
    assert run(shell, "%mlsql default SELECT 1").fetchall() == [(1,)]
    run(shell, "%mlsql CREATE OR REPLACE TABLE of_the_process AS SELECT 1")
    assert mlsql.sql("FROM of_the_process").fetchall() == [(1,)]


def test_a_file_is_run(shell: InteractiveShell, tmp_path: Path) -> None:
    (tmp_path / "a b.sql").write_text("CREATE TABLE t AS SELECT :n AS i; FROM t", encoding="utf-8")
    shell.user_ns["n"] = 3
    assert run(shell, f"%mlsql -f '{tmp_path / 'a b.sql'}'").fetchall() == [(3,)]


def test_a_frame_becomes_a_table(shell: InteractiveShell) -> None:
    shell.user_ns["df"] = pd.DataFrame({"a": [1, 2]})
    run(shell, "%mlsql --persist df")
    assert run(shell, "%mlsql FROM df").columns == ["index", "a"]
    with pytest.raises(mlsql.Error, match="already exists"):
        run(shell, "%mlsql -p df")
    run(shell, "%mlsql -P -n df")
    run(shell, "%mlsql --append df --no-index")
    assert run(shell, "%mlsql FROM df").fetchall() == [(1,), (2,), (1,), (2,)]
    shell.user_ns["other"] = pl.DataFrame({"b": ["x"]})
    run(shell, "%mlsql --append other")
    assert run(shell, "%mlsql FROM other").fetchall() == [("x",)]


def test_kept_queries_become_ctes(shell: InteractiveShell) -> None:
    run(shell, "%mlsql -S few -N SELECT range AS i FROM range(4)")
    assert run(shell, "%mlsql --with few -S odd SELECT i FROM few WHERE i % 2 = 1"
               ).fetchall() == [(1,), (3,)]
    assert run(shell, "%mlsql -w odd SELECT sum(i) FROM odd").fetchall() == [(4,)]
    with pytest.raises(mlsql.Error, match="without a WITH"):
        run(shell, "%mlsql -w odd WITH a AS (SELECT 1) FROM a")


def test_frames_instead_of_results(shell: InteractiveShell) -> None:
    run(shell, "%config MlsqlMagic.autopandas = True")
    assert isinstance(run(shell, "%mlsql SELECT 1 AS a"), pd.DataFrame)
    run(shell, "%config MlsqlMagic.autopolars = True")
    assert isinstance(run(shell, "%mlsql r = << SELECT 1 AS a"), pl.DataFrame)
    assert isinstance(shell.user_ns["r"], pl.DataFrame)
    assert magic_of(shell).autopandas is False


def test_autolimit(shell: InteractiveShell) -> None:
    run(shell, "%config MlsqlMagic.autolimit = 2")
    for sql in ("FROM range(9)", "SELECT * FROM range(9) -- all", "FROM range(9) LIMIT 5;",
                "WITH a AS (FROM range(9)) FROM a", "FROM range(9) UNION ALL FROM range(9)"):
        assert len(run(shell, f"%%mlsql\n{sql}").fetchall()) == 2, sql
    assert len(run(shell, "%mlsql FROM range(9) LIMIT 1").fetchall()) == 1
    run(shell, "%mlsql CREATE TABLE t AS FROM range(9)")
    assert run(shell, "%mlsql SELECT count(*) FROM t").fetchall() == [(9,)]
    assert fail_free(shell, "%mlsql EXPLAIN FROM t")


def test_autolimit_stops_models_early(shell: InteractiveShell, bikes: Path) -> None:
    seen: list[int] = []

    @mlsql.model(task="predict", output="BOOLEAN")
    def anything(pictures: list[Any]) -> list[bool]:
        seen.append(len(pictures))
        return [True for _ in pictures]

    shell.user_ns["con"].register_model(anything)
    run(shell, "%config MlsqlMagic.autolimit = 3")
    found = run(shell, f"%mlsql SELECT frame_id FROM '{bikes}' WHERE anything(frame)")
    assert len(found.fetchall()) == 3
    assert sum(seen) < 250


def fail_free(shell: InteractiveShell, code: str) -> bool:
    return bool(run(shell, code).fetchall())


def test_displaylimit(shell: InteractiveShell) -> None:
    def shown(code: str) -> str:
        data, _ = shell.display_formatter.format(run(shell, code))
        assert set(data) == {"text/html", "text/plain"}
        return str(data["text/html"])

    assert "50 rows, 20 shown" in shown("%mlsql FROM range(50)")
    run(shell, "%config MlsqlMagic.displaylimit = 7")
    assert "50 rows, 7 shown" in shown("%mlsql FROM range(50)")
    run(shell, "%config MlsqlMagic.displaylimit = 0")
    assert "50 rows<" in shown("%mlsql FROM range(50)")


def test_help_lists_every_option(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str], root: Path
) -> None:
    capsys.readouterr()
    run(shell, "%mlsql --help")
    assert capsys.readouterr().out == usage() + "\n"
    docs = (root / "docs" / "jupyter.md").read_text(encoding="utf-8")
    for option in OPTIONS:
        assert f"--{option.name}" in usage()
        assert f"`--{option.name}" in docs, option.name
    for name in type(magic_of(shell)).class_own_traits(config=True):
        assert f"`{name}`" in docs, name


def test_options_stand_anywhere_before_the_sql() -> None:
    asked = read("r << -A a mlsql:// --connection_arguments='{\"a\": 1}' SELECT -1 --x", None,
                 lambda word: word == "mlsql://")
    assert (asked.sql, asked.target, asked.shows) == ("SELECT -1 --x", "r", False)
    assert asked.connection == "mlsql://"
    assert asked.options == {"alias": "a", "connection_arguments": {"a": 1}}
    assert read("-- a comment", None, lambda _: False).sql == "-- a comment"


# --- other extensions ---------------------------------------------------------------------


def test_another_extensions_sql_stays_its_own(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = types.FunctionType((lambda line, cell=None: "theirs").__code__, {"__name__": "sql"})
    theirs.__module__ = "sql.magic"
    theirs.__defaults__ = (None,)
    try:
        shell.run_line_magic("unload_ext", "mlsql")
        assert shell.find_line_magic("sql") is None and shell.find_cell_magic("mlsql") is None
        shell.register_magic_function(theirs, "line_cell", "sql")
        capsys.readouterr()
        shell.run_line_magic("load_ext", "mlsql")
        assert capsys.readouterr().out == "%sql belongs to sql: use %mlsql\n"
        assert run(shell, "%sql SELECT 1") == "theirs"
        assert run(shell, "%mlsql con SELECT 1").fetchall() == [(1,)]
    finally:
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop("sql", None)
        shell.run_line_magic("reload_ext", "mlsql")
    assert run(shell, "%sql SELECT 1").fetchall() == [(1,)]
