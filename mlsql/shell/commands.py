"""The shell's own commands: one table feeds the shell, .help, completion and the docs."""

from __future__ import annotations

import difflib
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from mlsql.display import printable
from mlsql.errors import Error, Interrupted
from mlsql.foreign import interruptible
from mlsql.result import Result
from mlsql.shell.complaint import complaint
from mlsql.shell.formats import FORMATS
from mlsql.shell.shell import FAILED, INTERRUPTED, OK, Leave, Shell
from mlsql.shell.statements import Statement


class BadCommand(Exception):
    """A command cannot be carried out as it was given."""


Run = Callable[[Shell, list[str]], int | None]


@dataclass(frozen=True)
class Command:
    """A command: its names, what it takes, what it does, and how many words it takes at most."""

    names: tuple[str, ...]
    takes: str
    meaning: str
    run: Run
    most: int = 1

    @property
    def usage(self) -> str:
        """The first name and what it takes."""
        return f"{self.names[0]} {self.takes}".strip()


def run_command(shell: Shell, statement: Statement) -> int:
    """Carry out a line that is a command; gives the exit status it would have alone."""
    name, _, rest = statement.text.rstrip("; \t").partition(" ")
    try:
        command = found(name)
        words = _words(rest)
        if len(words) > command.most:
            raise BadCommand(f"usage: {command.usage}")
        return command.run(shell, words) or OK
    except (KeyboardInterrupt, Interrupted):
        shell.cut_off("interrupted")
        return INTERRUPTED
    except OSError as error:
        reason = f"{error.strerror}: {error.filename!r}" if error.filename else str(error)
        shell.complain(f"error: {name}: {printable(reason)}")
    except BadCommand as error:
        shell.complain(f"error: {printable(str(error))}")
    except Error as error:
        shell.complain(complaint(error, None))
    return FAILED


def found(name: str) -> Command:
    """The command of that name; an unknown one is an error with the nearest."""
    known = by_name()
    command = known.get(name) or known.get(name.lower())
    if command is None:
        near = difflib.get_close_matches(name.lower(), known, 1)
        meant = f": did you mean {near[0]}?" if near else "; .help lists them"
        raise BadCommand(f"no such command: {name}{meant}")
    return command


def _words(rest: str) -> list[str]:
    """The words of a line; quotes hold one together, and a backslash is a letter like others."""
    words = shlex.shlex(rest, posix=True, punctuation_chars=False)
    words.whitespace_split, words.escape, words.commenters = True, "", ""
    try:
        return list(words)
    except ValueError as error:
        raise BadCommand(f"{error}: {rest}") from None


def _switch(shell: Shell, words: list[str], now: bool, what: str) -> bool:
    """What 'on' or 'off' says; without a word the other state."""
    states = {"on": True, "off": False, "": not now}
    word = words[0].lower() if words else ""
    if word not in states:
        raise BadCommand(f"{what} is on or off, not {word!r}")
    if not words:
        shell.notice(f"{what} is {'on' if states[word] else 'off'}")
    return states[word]


# --- what they do ------------------------------------------------------------------------------


def _help(shell: Shell, words: list[str]) -> None:
    if words:
        wanted = [found(w if w in by_name() else f".{w}") for w in words]
        shell.output.stream.write("".join(f"{c.usage}\n  {c.meaning}\n" for c in wanted))
    else:
        shell.output.stream.write(help_text())
    shell.output.written()


def _mode(shell: Shell, words: list[str]) -> None:
    if not words:
        shell.notice(f"{shell.format} (of {', '.join(FORMATS)})")
        return
    if words[0].lower() not in FORMATS:
        near = difflib.get_close_matches(words[0].lower(), FORMATS, 1)
        meant = f": did you mean {near[0]!r}?" if near else f" (there are {', '.join(FORMATS)})"
        raise BadCommand(f"unknown format {words[0]!r}{meant}")
    shell.format = words[0].lower()


def _expanded(shell: Shell, words: list[str]) -> None:
    on = _switch(shell, words, shell.format == "line", "expanded")
    if on and shell.format != "line":
        shell.turned, shell.format = shell.format, "line"
    elif not on and shell.format == "line":
        shell.format = shell.turned if shell.turned != "line" else "table"


def _timer(shell: Shell, words: list[str]) -> None:
    shell.timer = _switch(shell, words, shell.timer, "timer")


def _bail(shell: Shell, words: list[str]) -> None:
    shell.bail = _switch(shell, words, shell.bail, "bail")


def _maxrows(shell: Shell, words: list[str]) -> None:
    if not words:
        most = shell.arranged().max_rows
        shell.notice("all rows" if most is None else f"{most:,} rows")
        return
    if not words[0].isascii() or not words[0].isdigit():
        raise BadCommand(f".maxrows takes a number of rows, 0 for all, not {words[0]!r}")
    shell.options = replace(shell.options, max_rows=int(words[0]))


def _nullvalue(shell: Shell, words: list[str]) -> None:
    shell.options = replace(shell.options, null=words[0] if words else None)


def _output(shell: Shell, words: list[str]) -> None:
    shell.output.send(words[0] if words else None)


def _once(shell: Shell, words: list[str]) -> None:
    if not words:
        raise BadCommand("usage: .once FILE")
    shell.output.send(words[0], once=True)


def _read(shell: Shell, words: list[str]) -> int:
    if not words:
        raise BadCommand("usage: .read FILE")
    path = Path(words[0]).expanduser()
    try:
        script = path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadCommand(f"{words[0]!r} is not UTF-8: {error}") from None
    return shell.reading(str(path), lambda: shell.run([script]))


def _tables(shell: Shell, words: list[str]) -> int:
    return shell.answer(f"""
        SELECT name, kind, columns FROM (
          SELECT database_name AS d, schema_name AS s, table_name AS name, 'table' AS kind,
                 column_count AS columns FROM duckdb_tables() WHERE NOT internal
          UNION ALL
          SELECT database_name, schema_name, view_name, 'view', column_count
          FROM duckdb_views() WHERE NOT internal)
        WHERE name ILIKE {_pattern(words)} ORDER BY d, s, name""", own=True)


def _schema(shell: Shell, words: list[str]) -> None:
    from mlsql.exec.views import written

    rows = shell.session.execute(f"""
        SELECT sql FROM (
          SELECT table_name AS name, sql FROM duckdb_tables() WHERE NOT internal
          UNION ALL SELECT table_name, sql FROM duckdb_indexes()
          UNION ALL SELECT view_name, sql FROM duckdb_views() WHERE NOT internal)
        WHERE sql IS NOT NULL AND name ILIKE {_pattern(words)} ORDER BY name""").fetchall()
    for row in rows:
        shell.output.stream.write(written(row[0]).strip().rstrip(";") + ";\n")
    shell.output.written()


def _pattern(words: list[str]) -> str:
    return _literal(words[0] if words else "%")


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _describe(shell: Shell, words: list[str]) -> int:
    if not words:
        return _tables(shell, [])
    name = words[0].rstrip(";")
    plain = name.replace("_", "a").replace(".", "a").replace('"', "a").isalnum()
    is_file = not plain or Path(name).is_file()
    return shell.answer(f"DESCRIBE {f'FROM {_literal(name)}' if is_file else name}", own=True)


def _show(shell: Shell, words: list[str]) -> None:
    from mlsql.gallery import cards
    from mlsql.shell.graphics import show

    if not words or not words[0].isdigit() or not int(words[0]):
        raise BadCommand("usage: .show N, the row of the last answer to look at, from 1")
    result, number = _last(shell), int(words[0])
    if result.rowcount < number:
        raise BadCommand(f"the last answer has no row {number:,}, it has {result.rowcount:,}")
    card = next(cards(result, number - 1), None)
    if card is None:
        raise BadCommand(f"row {number:,} has no picture")
    shell.notice(interruptible(lambda: show(card.image, card.boxes), shell.session.interrupt))


def _gallery(shell: Shell, words: list[str]) -> None:
    from mlsql.gallery import opened, page

    result = _last(shell)
    path = Path(words[0]).expanduser() if words else None
    written = interruptible(lambda: page(result, path, shell.asked),
                            shell.session.interrupt)
    in_browser = ", opened in the browser" if shell.prompting and opened(written.path) else ""
    shell.notice(f"{written.said}: {written.path}{in_browser}")


def _last(shell: Shell) -> Result:
    if shell.last is None:
        raise BadCommand("there is no answer yet: run a statement that selects pictures")
    return shell.last


def _exit(shell: Shell, words: list[str]) -> int:
    if words and not words[0].isdigit():
        raise BadCommand("usage: .exit [STATUS]")
    raise Leave(int(words[0]) % 256 if words else OK)


# --- the table ---------------------------------------------------------------------------------

COMMANDS: tuple[Command, ...] = (
    Command((".help", "\\?", ".?"), "[COMMAND]", "list the commands, or say what one does", _help),
    Command((".mode",), "[FORMAT]", f"write rows as {', '.join(FORMATS)}", _mode),
    Command((".timer", "\\timing"), "[on|off]", "say what each statement took", _timer),
    Command((".tables", "\\dt"), "[PATTERN]", "list tables and views, those LIKE the pattern",
            _tables),
    Command((".schema",), "[PATTERN]", "the statements that make them again", _schema),
    Command((".read",), "FILE", "run the statements of a file", _read),
    Command((".output",), "[FILE]", "write rows to a file from now on, or to the terminal again",
            _output),
    Command((".once",), "FILE", "write the next rows to a file", _once),
    Command((".maxrows",), "[N]", "show at most so many rows of a table; 0 shows all", _maxrows),
    Command((".nullvalue",), "[TEXT]", "what stands for NULL; without a text, the format's own",
            _nullvalue),
    Command((".bail",), "[on|off]", "whether an error ends a script", _bail),
    Command((".show",), "N", "show the picture of row N of the last answer", _show),
    Command((".gallery",), "[FILE]", "make an HTML page of the last answer's pictures, and open it",
            _gallery),
    Command((".exit", ".quit", "\\q", "exit", "quit"), "[STATUS]", "leave; Ctrl-D leaves too",
            _exit),
    Command(("\\d",), "[NAME]", "describe a table, view or media file; without a name, list them",
            _describe),
    Command(("\\x",), "[on|off]", "a line for each value, or a table again", _expanded),
)

_KEYS = """\
Statements end with ; and may take several lines. Tab completes names, and labels in quotes.
Ctrl-C forgets what was typed, or stops the statement that runs; what it computed is kept.
"""


def by_name() -> Mapping[str, Command]:
    """The commands by each of their names."""
    return {name: command for command in COMMANDS for name in command.names}


def help_text() -> str:
    """What .help says."""
    wide = max(len(command.usage) for command in COMMANDS)
    lines = []
    for command in COMMANDS:
        also = f" (also {', '.join(command.names[1:])})" if command.names[1:] else ""
        lines.append(f"{command.usage:<{wide}}  {command.meaning}{also}\n")
    return "".join(lines) + "\n" + _KEYS
