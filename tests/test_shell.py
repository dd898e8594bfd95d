"""The shell without a terminal: its commands, its help, completion, history and pictures."""

from __future__ import annotations

import base64
import io
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from pygments.token import Keyword, Name, String

import mlsql
from mlsql.__main__ import main
from mlsql.image import Image
from mlsql.result import Outcome, Result
from mlsql.shell import graphics
from mlsql.shell.command import parser
from mlsql.shell.commands import COMMANDS, by_name, help_text
from mlsql.shell.completion import ShellCompleter, in_label
from mlsql.shell.footer import footer
from mlsql.shell.highlight import SqlLexer
from mlsql.shell.history import OwnHistory, history, is_secret
from mlsql.shell.names import IMAGE_COLUMNS, VIDEO_COLUMNS, Names
from tests.media_samples import encode_picture, grey
from tests.sessions import Asking, make_pictures, make_video

Run = Callable[..., "tuple[int, str, str]"]


@pytest.fixture
def shell(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Run the command in an empty folder; gives the status, standard output and error."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        status = main(words)
        return (status, *capsys.readouterr())

    return run


# --- commands in scripts ------------------------------------------------------------------------


def test_formats_and_nulls(shell: Run) -> None:
    assert shell(stdin=".mode csv\nSELECT 1 AS a, NULL AS b;\n.nullvalue nil\nSELECT NULL AS b;\n"
                 ".nullvalue\nSELECT NULL AS b") == (0, "a,b\n1,\nb\nnil\nb\n\n", "")
    assert shell(stdin="\\x\nSELECT 1 AS a;\n\\x off\n.mode\n") == (
        0, "a = 1\n", "expanded is on\ntable (of table, csv, json, jsonl, markdown, line, html)\n")


def test_html(shell: Run) -> None:
    sql = "SELECT '<b>x</b>' AS \"<i>\", NULL AS n"
    status, out, _ = shell("--format", "html", "-c", sql)
    assert status == 0
    assert "<th>&lt;i&gt;</th>" in out and "<td>&lt;b&gt;x&lt;/b&gt;</td>" in out
    assert '<td class="null">NULL</td>' in out
    assert shell("--format", "html", "--no-header", "-c", sql)[1].count("<th>") == 0


def test_the_rows_that_are_shown(shell: Run) -> None:
    sql = "SELECT range AS i FROM range(9)"
    assert "(9 rows, 4 shown)" in shell(stdin=f".maxrows 4\n{sql};")[1]
    assert "│      4 │" in shell(stdin=f".maxrows 4\n.maxrows 0\n{sql};")[1]
    assert shell(stdin=".maxrows many")[0] == 1


def test_rows_go_to_a_file(shell: Run, tmp_path: Path) -> None:
    status, out, err = shell("--format", "csv", stdin="""\
.once "one file.csv"
SELECT 1 AS a;
SELECT 2 AS a;
.output all.csv
SELECT 3 AS a;
SELECT 4 AS a;
.output
SELECT 5 AS a;
""")
    assert (status, out, err) == (0, "a\n2\na\n5\n", "")
    assert (tmp_path / "one file.csv").read_text() == "a\n1\n"
    assert (tmp_path / "all.csv").read_text() == "a\n3\na\n4\n"
    status, _, err = shell(stdin=".output no/such/folder/x\n")
    assert status == 1
    assert err == "error: .output: No such file or directory: 'no/such/folder/x'\n"


def test_a_script_in_a_script(shell: Run, tmp_path: Path) -> None:
    (tmp_path / "inner.sql").write_text("\ufeffCREATE TABLE t AS SELECT 7 AS i;\n.mode csv\n")
    (tmp_path / "loop.sql").write_text(".read loop.sql\n")
    assert shell("--init", "inner.sql", "-c", "FROM t") == (0, "i\n7\n", "")
    assert shell(stdin=".read inner.sql\nFROM t;") == (0, "i\n7\n", "")
    assert shell(stdin=".read loop.sql") == (1, "", "error: loop.sql reads itself\n")
    assert shell("--init", "absent.sql", "-c", "SELECT 1") == (
        1, "", "error: cannot read 'absent.sql': No such file or directory\n")


def test_tables_and_what_makes_them(shell: Run, tmp_path: Path) -> None:
    video = make_video(tmp_path)
    make = ("CREATE TABLE t (i INTEGER, \"a b\" VARCHAR); CREATE VIEW v AS SELECT 1 AS x; "
            f"CREATE VIEW seen AS SELECT frame_id, CONTAINS(frame, 'cat') AS cat FROM '{video}';\n")
    status, out, err = shell("shop.db", "--format", "csv", stdin=f"{make}.tables\n\\dt t\n")
    assert (status, err) == (0, "")
    assert out == ("name,kind,columns\nseen,view,2\nt,table,2\nv,view,1\n"
                   "name,kind,columns\nt,table,2\n")
    made = shell("shop.db", stdin=".schema")[1]
    assert "mlsql_view" not in made
    assert shell("copy.db", stdin=made + ".schema\n") == (0, made, "")
    described = shell("copy.db", "--format", "csv", stdin="\\d t\n\\d seen;\n")[1]
    assert "i,INTEGER," in described and "cat,BOOLEAN," in described
    assert "frame_id,BIGINT," in shell("--format", "csv", stdin=f"\\d {video}\n")[1]


def test_bad_sql(shell: Run) -> None:
    status, out, err = shell(stdin="bad sql\n")
    assert (status, out) == (1, "")
    assert err.startswith("error: syntax error") and err.splitlines()[-2:] == ["  bad sql", "  ^"]


def test_an_error_ends_a_script_or_does_not(shell: Run) -> None:
    script = "SELECT nope;\nSELECT 1 AS a;\n"
    status, out, err = shell("--format", "csv", stdin=script)
    assert (status, out) == (1, "")
    assert err.splitlines()[-1] == "         ^"
    status, out, err = shell("--format", "csv", "--on-error", "continue", stdin=script)
    assert (status, out) == (1, "a\n1\n")
    assert err.startswith("error: ")
    assert shell("--format", "csv", stdin=".bail off\n" + script)[:2] == (1, "a\n1\n")
    assert shell("--on-error", "continue", stdin=".bail on\n" + script)[:2] == (1, "")


def test_unknown_and_wrong_commands(shell: Run) -> None:
    for line, said in (
        (".nonsense", "no such command: .nonsense; .help lists them"),
        (".tabels", "no such command: .tabels: did you mean .tables?"),
        (".mode cvs", "unknown format 'cvs': did you mean 'csv'?"),
        (".read", "usage: .read FILE"), (".timer perhaps", "timer is on or off, not 'perhaps'"),
        (".read a b", "usage: .read FILE"), (".once 'x", "No closing quotation: 'x"),
        (".show 1", "there is no answer yet: run a statement that selects pictures"),
    ):
        status, out, err = shell(stdin=line)
        assert (status, out) == (1, ""), line
        assert err.startswith(f"error: {said}"), line


def test_leaving(shell: Run) -> None:
    for line, status in ((".exit 3", 3), (".quit", 0), ("exit", 0), ("QUIT;", 0), ("\\q", 0)):
        assert shell(stdin=f"{line}\nSELECT nope;")[0] == status


def test_the_timer(shell: Run) -> None:
    status, out, err = shell("--format", "csv", stdin=".timer on\nSELECT 1 AS a;\n\\timing off\n"
                             "SELECT 2 AS a;")
    assert (status, out) == (0, "a\n1\na\n2\n")
    assert re.fullmatch(r"\d\.\d{3} s\n", err)


# --- help and docs ------------------------------------------------------------------------------


def test_help_docs_and_command_agree(root: Path, shell: Run) -> None:
    text = (root / "docs" / "shell.md").read_text(encoding="utf-8")
    rows = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in text.splitlines() if line.startswith("|")]
    documented = {row[0].strip("`"): row[1] for row in rows}
    for command in COMMANDS:
        assert documented[command.usage] == command.meaning
        for name in command.names:
            assert f"`{name}" in text, name
    status, shown, _ = shell(stdin=".help")
    assert (status, shown) == (0, help_text())
    listed = [line.split("  ")[0] for line in shown.split("\n\n")[0].splitlines()]
    assert listed == [command.usage for command in COMMANDS]

    options = [a for a in parser()._actions if a.dest not in ("help", "version", "database")]
    help_of_command = parser().format_help()
    for action in options:
        option = action.option_strings[0]
        (row,) = [row for row in rows if row[0].startswith(f"`{option}")]
        assert row[1].startswith(re.sub(r" \(default.*", "", str(action.help)).replace(
            "; - is standard input", "; `-` is standard input")), option
        assert option in help_of_command
        for choice in action.choices or ():
            assert f"`{choice}`" in text or f"{option} {choice}" in text, choice
    known = {option for action in parser()._actions for option in action.option_strings}
    assert set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", " ".join(r[0] for r in rows))) <= known


def test_every_command_answers_to_help(shell: Run) -> None:
    for name in by_name():
        status, out, _ = shell(stdin=f".help {name}")
        assert status == 0
        assert by_name()[name].meaning in out


# --- completion ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def names() -> Iterator[Names]:
    with Asking() as s:
        s.session.execute('CREATE TABLE cars (plate INTEGER, "top speed" DOUBLE)')
        s.add("moods", lambda x: {"glad": 1.0}, task="classify", labels=["glad", "it's odd"])
        yield Names(s.session)


def completed(names: Names, text: str, after: str = "") -> list[str]:
    document = Document(text + after, len(text))
    return [c.text for c in ShellCompleter(names).get_completions(document, CompleteEvent())]


@pytest.mark.parametrize(("text", "wanted"), [
    ("SELECT * FROM 'x.mp4' WHERE CONTAINS(frame, 'traffic l", "traffic light'"),
    ("SELECT COUNT_OBJECTS(frame, 'perso", "person'"),
    ("SELECT SCORE(IMAGE(p), 'bicyc", "bicycle'"),
    ("SELECT CONTAINS_ANY(frame, ['bird', 'boa", "boat'"),
    ("SELECT CONTAINS_ALL(frame, [\n  'bird',\n  'perso", "person'"),
    ("SELECT DETECT(frame, ['perso", "person'"),
    ("SELECT CLASSIFY(frame, ['tenc", "tench'"),
    ("SELECT CONTAINS(frame, 'bird', model => 'efficientnet_lite0') OR CONTAINS(frame, 'perso",
     "person'"),
    ("SELECT SCORE(frame, model => 'moods', 'it''s", "it''s odd'"),
    ("SELECT CONTAINS(frame, 'bird', model => 'ssd_mob", "ssd_mobilenet_v2'"),
    ("SELECT ML_PREDICT('moo", "moods'"),
    ("SELECT * FROM labels('moo", "moods'"),
    ("DESCRIBE MODEL moo", "moods"),
    ("SELECT CONTAINS(frame, 'bird', min_s", "min_score => "),
    ("SELECT 1 AS a; sel", "select"),
    ("SEL", "SELECT"),
    ("SELECT count_o", "COUNT_OBJECTS("),
    ("SELECT regexp_repl", "regexp_replace("),
    ("SELECT * FROM ca", "cars"),
    ("SELECT c.\"x\", top FROM cars c WHERE pla", "plate"),
    ("SELECT * FROM cars WHERE cars.", '"top speed"'),
    ("SELECT * FROM 'x.mp4' WHERE keyf", "keyframe"),
    ("SET on_err", "on_error"),
    ("SET on_error = 's", "skip'"),
    (".gal", ".gallery"),
    (".mode js", "jsonl"),
    ("SELECT 1;\n\\ti", "\\timing"),
])
def test_what_is_offered(names: Names, text: str, wanted: str) -> None:
    assert wanted in completed(names, text)


@pytest.mark.parametrize("text", [
    "SELECT 'perso", "SELECT 1 -- CONTAINS(frame, 'perso", "SELECT $$ CONTAINS(frame, 'perso",
    "SELECT /* CONTAINS(frame, 'perso", "SELECT lower('perso", "SELECT CONTAINS('perso",
    "SELECT SCORE(frame, 'a'), 'perso", "SELECT CONTAINS(frame, 'a', min_score => 'perso",
])
def test_labels_are_offered_where_they_stand_alone(names: Names, text: str) -> None:
    assert completed(names, text) == []


def test_labels_are_those_of_the_model(names: Names) -> None:
    after = "', min_score => .3, model => 'moods') AND CONTAINS(frame, 'x', model => 'eye')"
    assert completed(names, "SELECT CONTAINS(frame, 'gl", after) == ["glad"]
    cats = completed(names, "SELECT CONTAINS(frame, 'ca", "', model => 'eye')")
    assert cats[0] == "cat" and "canine" in cats  # its own label first, then what covers some
    assert "car" not in cats and "car'" in completed(names, "SELECT CONTAINS(frame, 'ca")
    assert completed(names, "SELECT CONTAINS(frame, 'gl", "', model => 'eye')") == []
    assert completed(names, "SELECT DETECT(frame, ['tenc") == []  # no detector knows it


def test_a_new_table_is_offered(names: Names) -> None:
    assert "bicycles" not in completed(names, "SELECT * FROM bicy")
    names._session.execute("CREATE TABLE bicycles (i INT)")
    names.forget()
    assert "bicycles" in completed(names, "SELECT * FROM bicy")
    names._session.execute("DROP TABLE bicycles")
    names.forget()


def test_files_are_offered(
    names: Names, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "films").mkdir()
    (tmp_path / "films" / "trip.mp4").touch()
    monkeypatch.chdir(tmp_path)
    assert completed(names, "SELECT * FROM 'fi") == ["films/"]
    assert completed(names, "SELECT * FROM 'films/") == ["trip.mp4'"]
    assert completed(names, f"SELECT * FROM read_video('{tmp_path}/films/t") == ["trip.mp4'"]
    assert completed(names, ".read fi") == ["films/"]


def test_the_columns_of_media(tmp_path: Path) -> None:
    video = make_video(tmp_path)
    pictures = make_pictures(tmp_path / "p", 1)
    with mlsql.connect() as con:
        for source, columns in ((video, VIDEO_COLUMNS), (pictures / "*.png", IMAGE_COLUMNS)):
            assert tuple(con.execute(f"SELECT * FROM '{source}' LIMIT 0").columns) == columns


def test_a_label_opens_the_menu_by_itself() -> None:
    assert in_label("SELECT CONTAINS(frame, 'b")
    assert not in_label("SELECT CONTAINS(frame, '")
    assert not in_label("SELECT fr")


def test_colours() -> None:
    tokens = list(SqlLexer().get_tokens("SELECT DETECT(frame), 'a' QUALIFY $$ ; $$"))
    kinds = {value: kind for kind, value in tokens}
    assert kinds["SELECT"] in Keyword and kinds["QUALIFY"] in Keyword
    assert kinds["DETECT"] in Name.Function and kinds["frame"] is Name
    assert kinds["a"] in String and kinds[" ; "] in String


# --- history ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("statement", "secret"), [
    ("CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')", True),
    ("ATTACH 'host=x password=hunter2' AS pg (TYPE postgres)", True),
    ("ATTACH 'postgres://me:hunter2@host/db'", True),
    ("SET s3_secret_access_key = 'abc'", True),
    ("SELECT 'sk-abc123'", True),
    ("SELECT * FROM 'trip.mp4' WHERE CONTAINS(frame, 'person')", False),
    ("SELECT key FROM t WHERE key = 'a'", False),
    ("SELECT 'http://host:80/a@b'", False),
])
def test_secrets_are_told(statement: str, secret: bool) -> None:
    assert is_secret(statement) is secret


def test_history_is_its_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "state" / "mlsql" / "history"
    kept = history()
    for typed in ("SELECT 1;", "CREATE SECRET s (SECRET 'hunter2');", " SELECT 'quiet';",
                  "SELECT\n  2;"):
        kept.append_string(typed)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "hunter2" not in path.read_text() and "quiet" not in path.read_text()
    path.chmod(0o644)
    again = history()
    assert isinstance(again, OwnHistory)
    assert list(again.load_history_strings()) == ["SELECT\n  2;", "SELECT 1;"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_history_that_cannot_be_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("MLSQL_HISTORY", str(tmp_path / "file" / "history"))
    history().append_string("SELECT 1;")
    assert "history is not kept" in capsys.readouterr().err


# --- the footer ---------------------------------------------------------------------------------


def test_the_footer_says_how_sure_an_answer_is() -> None:
    import pyarrow as pa

    rows = pa.table({"mean": [0.31]})
    exact = Result(lambda: Outcome(rows))
    assert footer(0.5, exact) == "1 row, 0.500 s"
    close = Result(lambda: Outcome(rows, approximate=True, interval=(0.29, 0.33)))
    assert footer(0.5, close).startswith("1 row, 0.500 s, approximate: 0.31 ± 0.02")
    with Asking() as s:
        result = s.run("SELECT sq(x) FROM (VALUES (1), (2), (2)) t(x)")
        assert footer(1, result) == "3 rows, 1.000 s, 2 model calls, 0 cached"
        s.run("CREATE TABLE t (i INT)")
        assert footer(1, s.run("INSERT INTO t VALUES (1), (2)")) == "2 rows changed, 1.000 s"


# --- pictures -----------------------------------------------------------------------------------


def picture() -> PIL.Image.Image:
    """Four fields of colour, with an edge that is no multiple of six."""
    pixels = np.zeros((20, 30, 3), np.uint8)
    pixels[:10, :15] = (255, 0, 0)
    pixels[:10, 15:] = (0, 255, 0)
    pixels[10:, :15] = (0, 0, 255)
    pixels[10:, 15:] = (255, 255, 255)
    return PIL.Image.fromarray(pixels)


def unsixel(text: str) -> np.ndarray[Any, Any]:
    """The pixels of a sixel sequence."""
    head = re.match(r'\x1bPq"1;1;(\d+);(\d+)', text)
    assert head and text.endswith("\x1b\\")
    width, height = int(head[1]), int(head[2])
    pixels = np.full((height + 5, width, 3), 7, np.uint8)
    colours: dict[int, tuple[int, ...]] = {}
    colour, x, y = 0, 0, 0
    for token in re.findall(r"#\d+(?:;2;\d+;\d+;\d+)?|!\d+.|[$-]|[?-~]", text[head.end():-2]):
        if token[0] == "#":
            number, _, given = token[1:].partition(";2;")
            colour = int(number)
            if given:
                colours[colour] = tuple(round(int(p) * 2.55) for p in given.split(";"))
        elif token in "$-":
            x, y = 0, y + 6 * (token == "-")
        else:
            run = int(token[1:-1]) if token[0] == "!" else 1
            for bit in range(6):
                if (ord(token[-1]) - 63) >> bit & 1:
                    pixels[y + bit, x:x + run] = colours[colour]
            x += run
    return pixels[:height]


def test_pictures_survive_each_protocol() -> None:
    wanted = np.asarray(picture())
    pieces = list(graphics.kitty(picture()))
    data = "".join(re.sub(r"^\x1b_G.*?;|\x1b\\$", "", piece) for piece in pieces)
    assert pieces[0].startswith("\x1b_Gf=100,a=T") and "m=0" in pieces[-1][:20]
    sent = PIL.Image.open(io.BytesIO(base64.b64decode(data)))
    assert np.array_equal(np.asarray(sent), wanted)
    (inline,) = graphics.iterm2(picture())
    sent = PIL.Image.open(io.BytesIO(base64.b64decode(inline.split(":")[1].rstrip("\x07"))))
    assert np.array_equal(np.asarray(sent), wanted)
    assert np.abs(unsixel("".join(graphics.sixel(picture()))).astype(int) - wanted).max() <= 2


def test_kittys_pieces_are_short() -> None:
    noise = np.random.default_rng(0).integers(0, 255, (90, 90, 3), np.uint8)
    pieces = list(graphics.kitty(PIL.Image.fromarray(noise)))
    assert len(pieces) > 2
    assert all(len(piece) <= 4096 + 40 for piece in pieces)
    assert ["m=1" in piece[:30] for piece in pieces] == [True] * (len(pieces) - 1) + [False]


@pytest.mark.parametrize(("variables", "wanted"), [
    ({"MLSQL_GRAPHICS": "Sixel"}, "sixel"), ({}, "none"),
])
def test_what_the_terminal_can(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], wanted: str
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert graphics.protocol() == wanted


def test_show_saves_where_it_cannot_draw(
    shell: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "<b>x</b>.png"
    path.parent.mkdir()
    path.write_bytes(encode_picture(grey(80), "PNG"))
    sql = f"SELECT image FROM '{path}'"
    status, _, err = shell("--format", "csv", "-c", sql, "-c", ".show 1")
    assert status == 0
    saved = Path(err.rpartition(" saved to ")[2].strip())
    assert np.array_equal(Image(str(saved)).numpy(), Image(str(path)).numpy())
    assert shell("-c", sql, "-c", ".show 2")[0] == 1
    assert "row 1 has no picture" in shell("-c", "SELECT 1", "-c", ".show 1")[2]
    monkeypatch.setenv("MLSQL_GRAPHICS", "kitty")
    assert "\x1b_Gf=100" in shell("-c", sql, "-c", ".show 1")[1]


def test_a_cell_says_the_size_of_its_picture(shell: Run, tmp_path: Path) -> None:
    video = make_video(tmp_path, "trip.mp4")
    with mlsql.connect() as con:
        width, height = con.execute(f"SELECT width, height FROM '{video}' LIMIT 1").fetchall()[0]
    out = shell("-c", f"SELECT frame FROM '{video}' WHERE frame_id = 7")[1]
    assert f"<image {width}x{height} trip.mp4#7>" in out
    gone = "SELECT {'uri': 'gone.mp4', 'frame': 3::BIGINT, 'data': NULL::BLOB} AS f"
    assert "<image gone.mp4#3>" in shell("-c", gone)[1]


# --- without a terminal nothing of it is loaded --------------------------------------------------


def test_scripts_load_no_terminal_library(root: Path) -> None:
    code = ("import sys; from mlsql.__main__ import main; main(['-c', 'SELECT 1']); "
            "print(sorted({'prompt_toolkit', 'pygments', 'rich', 'torch'} & set(sys.modules)))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                          env={**os.environ, "PYTHONPATH": str(root)}, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
