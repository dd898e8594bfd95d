"""A prompt on a terminal: statements over several lines, each run at its semicolon."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mlsql.shell.shell import OK, Leave, Shell
from mlsql.shell.statements import is_complete, split

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    from mlsql.shell.names import Names

_ASKS, _GOES_ON = "mlsql> ", "   ...> "
# The terminal's own colours, which its owner can read on its background.
_STYLE = {
    "prompt": "bold ansicyan", "prompt-continuation": "ansicyan", "pygments.keyword": "bold",
    "pygments.name.function": "ansicyan", "pygments.literal.string": "ansigreen",
    "pygments.literal.number": "ansimagenta", "pygments.comment": "ansibrightblack",
}


def prompt(shell: Shell) -> int:
    """Read statements from the terminal and run them until the user leaves."""
    from mlsql.shell.names import Names

    names = Names(shell.session)
    reader = _reader(names)
    shell.notice("mlsql: statements end with ;  .help helps, .exit leaves")
    with _unechoed():
        return _loop(shell, reader, names)


def _loop(shell: Shell, reader: PromptSession[str], names: Names) -> int:
    while True:
        try:
            typed = reader.prompt()
        except EOFError:
            return OK
        except KeyboardInterrupt:
            continue
        try:
            run(shell, typed)
        except Leave as leave:
            return leave.status
        names.forget()


def run(shell: Shell, typed: str) -> None:
    """Run what was typed, up to the first error; nothing that happens in it ends the prompt."""
    try:
        for statement in split(typed):
            if shell.run_statement(statement) != OK:
                return
    except KeyboardInterrupt:
        shell.cut_off("interrupted")


@contextmanager
def _unechoed() -> Iterator[None]:
    """Inside, keys pressed while a statement runs show when the prompt reads them, not before."""
    try:
        import termios

        terminal = sys.stdin.fileno()
        before = termios.tcgetattr(terminal)
    except (ImportError, OSError, ValueError):  # not on Windows
        yield
        return
    quiet = termios.tcgetattr(terminal)
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSANOW, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)


def _reader(names: Names) -> PromptSession[str]:
    """What reads from the terminal: on standard error where standard output goes elsewhere."""
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import DynamicCompleter
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.lexers import PygmentsLexer
    from prompt_toolkit.output import create_output
    from prompt_toolkit.styles import Style

    from mlsql.shell.completion import ShellCompleter, in_label
    from mlsql.shell.highlight import SqlLexer
    from mlsql.shell.history import history

    completer = ShellCompleter(names)
    session: PromptSession[str] = PromptSession(
        _ASKS, multiline=True, prompt_continuation=_continued, key_bindings=_keys(),
        lexer=PygmentsLexer(SqlLexer), completer=DynamicCompleter(lambda: completer),
        history=history(), output=None if sys.stdout.isatty() else create_output(sys.stderr),
        style=Style.from_dict(_STYLE), include_default_pygments_style=False,
        reserve_space_for_menu=6)
    session.complete_while_typing = Condition(
        lambda: in_label(session.default_buffer.document.text_before_cursor))
    return session


def _continued(width: int, line: int, wrapped: int) -> str:
    """What stands before a further line; a line too long for the screen is the same line."""
    return " " * width if wrapped else _GOES_ON


def _keys() -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion:
            buffer.complete_state = None  # Enter takes what the menu shows
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @keys.add("escape", "enter")
    def _run_anyway(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys
