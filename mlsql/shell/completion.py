"""Completion: names where names stand, labels where labels stand, files where files stand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from mlsql.exec.media.names import is_image, is_video
from mlsql.shell.commands import COMMANDS, by_name
from mlsql.shell.cursor import Cursor, at_end
from mlsql.shell.formats import FORMATS
from mlsql.shell.names import IMAGE_COLUMNS, VIDEO_COLUMNS, Names
from mlsql.shell.statements import split
from mlsql.udfs.function import Function, functions

_SOURCES = ("FROM", "JOIN", "READ_VIDEO", "READ_IMAGES", "READ_CSV", "READ_PARQUET", "READ_JSON",
            "COPY", "TO", "IMAGE")
_TASKS = {"DETECT": "detect", "CLASSIFY": "classify", "AI_CLASSIFY": "classify",
          "CLASSIFY_SCORES": "classify"}


class ShellCompleter(Completer):
    """Completes statements and commands, from the names of a session."""

    def __init__(self, names: Names) -> None:
        self._names = names

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """What may stand at the cursor, best first."""
        text, after = document.text_before_cursor, document.text_after_cursor
        line = _command_line(text)
        if line is not None:
            return _command(line, self._names)
        return self._statement(at_end(text, after), after)

    def _statement(self, cursor: Cursor, after: str) -> Iterator[Completion]:
        if cursor.inside == "string":
            yield from self._string(cursor, after)
        elif cursor.inside == "code":
            later = at_end(after).tables
            seen: set[str] = set()
            for found in self._code(replace(cursor, tables=(*cursor.tables, *later))):
                if found.text not in seen:
                    seen.add(found.text)
                    yield found

    # --- in a string ----------------------------------------------------------------------

    def _string(self, cursor: Cursor, after: str) -> Iterator[Completion]:
        what = string_is(cursor)
        ends = "" if after.startswith("'") else "'"
        if what == "label":
            assert cursor.frame is not None
            words = self._names.labels(cursor.frame.model, _TASKS.get(cursor.frame.function))
            yield from _matching(words, cursor.prefix, "label", lambda w: _inner(w) + ends)
        elif what == "model":
            yield from _matching(self._names.models, cursor.prefix, "model", lambda w: w + ends)
        elif what == "file":
            yield from _paths(cursor.prefix, ends)
        elif what.startswith("setting "):
            setting = self._names.settings.get(what.partition(" ")[2])
            choices = setting.choices if setting is not None else ()
            yield from _matching(choices, cursor.prefix, "value", lambda w: w + ends)

    # --- outside --------------------------------------------------------------------------

    def _code(self, cursor: Cursor) -> Iterator[Completion]:
        before = cursor.before[-1].upper() if cursor.before else ""
        prefix = cursor.prefix
        if cursor.qualifier:
            yield from _matching(self._columns_of(cursor.qualifier, cursor), prefix, "column",
                                 _identifier)
            return
        if before in ("SET", "RESET"):
            yield from _matching(self._names.settings, prefix, "setting")
            return
        if before == "MODEL" and cursor.before[-2:-1] and \
                cursor.before[-2].upper() in ("DROP", "DESCRIBE"):
            yield from _matching(self._names.models, prefix, "model")
            return
        if before in ("FROM", "JOIN", "INTO", "UPDATE", "TABLE", "DESCRIBE", "SUMMARIZE"):
            yield from _matching(self._names.tables, prefix, "table", _identifier)
        yield from self._options(cursor)
        yield from _matching(self._columns(cursor), prefix, "column", _identifier)
        if not prefix:
            return
        yield from _matching(self._names.functions, prefix, "model function", lambda w: w + "(")
        yield from _matching(self._names.tables, prefix, "table", _identifier)
        yield from _matching(self._names.keywords, prefix, "", lambda w: _cased(w, prefix))
        yield from _matching(self._names.builtins, prefix, "function", lambda w: w + "(")

    def _options(self, cursor: Cursor) -> Iterator[Completion]:
        """The options of the model function that the cursor is in, after its first argument."""
        function = _function(cursor)
        frame = cursor.frame
        if function is None or frame is None or not frame.argument or frame.option:
            return
        yield from _matching(function.options, cursor.prefix, "option", lambda w: f"{w} => ")

    def _columns(self, cursor: Cursor) -> list[str]:
        """The columns of the tables in the statement; of all tables where it names none yet."""
        known = self._names.columns
        tables = [name for name in cursor.tables if name.lower() in known]
        found: dict[str, None] = {}
        for source in cursor.tables:
            found.update(dict.fromkeys(_media_columns(source)))
        for table in tables or ([] if found else known):
            found.update(dict.fromkeys(known[table.lower()]))
        if not cursor.tables:
            found.update(dict.fromkeys(("frame", "frame_id", "ts", "image")))
        return list(found)

    def _columns_of(self, qualifier: str, cursor: Cursor) -> list[str]:
        columns = self._names.columns.get(qualifier.lower())
        return columns if columns is not None else self._columns(cursor)


def in_label(text: str) -> bool:
    """Whether a label is being typed at the end of the text."""
    cursor = at_end(text)
    return cursor.inside == "string" and string_is(cursor) == "label" and bool(cursor.prefix)


def string_is(cursor: Cursor) -> str:
    """What the string at the cursor is: 'label', 'model', 'file', 'setting NAME', or ''."""
    function, frame = _function(cursor), cursor.frame
    if frame is not None and frame.option == "model":
        return "model"
    if function is not None and frame is not None and not frame.option:
        named = function.arguments[min(frame.argument, len(function.arguments) - 1)]
        return {"label": "label", "labels": "label", "model": "model"}.get(named, "")
    if frame is not None and frame.function == "LABELS":
        return "model"
    words = [word.upper() for word in cursor.before]
    if words[-2:-1] == ["MODEL"] or words[-1:] == ["MODEL"]:
        return "model"
    if words[:1] == ["SET"] and words[2:] == ["="]:
        return f"setting {cursor.before[1].lower()}"
    called = frame.function if frame is not None and frame.function else ""
    return "file" if called in _SOURCES or (words and words[-1] in _SOURCES) else ""


def _function(cursor: Cursor) -> Function | None:
    return functions().get(cursor.frame.function) if cursor.frame is not None else None


def _media_columns(source: str) -> tuple[str, ...]:
    if is_video(source) or source.upper() == "READ_VIDEO":
        return VIDEO_COLUMNS
    return IMAGE_COLUMNS if is_image(source) or source.upper() == "READ_IMAGES" else ()


def _matching(
    words: Iterable[str], prefix: str, meta: str, written: Callable[[str], str] = str
) -> Iterator[Completion]:
    """The words that begin like the prefix, whatever their case; then those with it further in."""
    given = prefix.replace("''", "'").lower()
    starting = [w for w in words if w.lower().startswith(given)]
    inside = [w for w in words if len(given) > 1 and f" {given}" in w.lower()]
    for word in [*starting, *(w for w in inside if w not in starting)]:
        yield Completion(written(word), -len(prefix), display=word, display_meta=meta)


def _inner(word: str) -> str:
    return word.replace("'", "''")


def _identifier(name: str) -> str:
    plain = name.replace("_", "a").isalnum() and not name[:1].isdigit() and name.isascii()
    return name if plain else '"' + name.replace('"', '""') + '"'


def _cased(word: str, prefix: str) -> str:
    return word.lower() if prefix.islower() else word


def _paths(prefix: str, ends: str = "") -> Iterator[Completion]:
    """The files and folders that a path may go on with."""
    folder, _, start = prefix.rpartition("/")
    where = os.path.expanduser(folder + "/") if folder or prefix.startswith("/") else "."
    try:
        entries = sorted(os.scandir(where), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(start) and (start.startswith(".") or entry.name[:1] != "."):
            name = entry.name + ("/" if entry.is_dir() else ends)
            yield Completion(name, -len(start), display=entry.name, display_meta="file")


def _command_line(text: str) -> str | None:
    """The command of the shell that is being typed; None where it is a statement."""
    statements = split(text)
    if text.strip() and statements and statements[-1].is_command and not text.endswith("\n"):
        return text[text.rfind("\n") + 1:].lstrip()
    return text.strip() if text.strip() in (".", "\\") else None


def _command(line: str, names: Names) -> Iterator[Completion]:
    name, blank, rest = line.partition(" ")
    if not blank:
        known = [n for n in by_name() if n[0] == line[0]]
        meanings = {n: command.meaning for command in COMMANDS for n in command.names}
        for word in known:
            if word.startswith(line):
                yield Completion(word, -len(line), display_meta=meanings[word])
    elif name in (".read", ".output", ".once", ".gallery"):
        yield from _paths(rest)
    else:
        choices: dict[str, Iterable[str]] = {
            ".mode": FORMATS, ".schema": names.tables, ".tables": names.tables,
            "\\d": names.tables, ".help": by_name(), ".timer": ("on", "off"),
            ".bail": ("on", "off"), "\\x": ("on", "off"), "\\timing": ("on", "off")}
        yield from _matching(choices.get(name, ()), rest, "")
