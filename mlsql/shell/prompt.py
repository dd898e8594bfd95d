"""A prompt on a terminal: statements over several lines, each run at its semicolon."""

from __future__ import annotations

import sys

from mlsql.shell.command import OK, Shell
from mlsql.shell.statements import is_complete, split

_HELP = """\
Statements end with ;      Ctrl-C forgets what was typed, or stops a statement
.help                      this
.exit                      leave; so do .quit, exit, quit and Ctrl-D
"""
_LEAVE = (".exit", ".quit", "exit", "quit", "exit;", "quit;")


def prompt(shell: Shell) -> int:
    """Read statements from the terminal and run them until the user leaves."""
    try:
        import readline  # noqa: F401 - importing it gives input() its line editing
    except ImportError:
        pass
    print("mlsql: statements end with ;  .help helps, .exit leaves", file=sys.stderr)
    typed = ""
    while True:
        try:
            line = input("   ...> " if typed else "mlsql> ")
        except EOFError:
            print()
            return OK
        except KeyboardInterrupt:
            print()
            typed = ""
            continue
        if not typed and line.strip().lower() in _LEAVE:
            return OK
        if not typed and line.strip().startswith("."):
            print(_HELP if line.strip() == ".help" else f"no such command: {line.strip()}",
                  end="\n" if line.strip() != ".help" else "")
            continue
        typed += line + "\n"
        if is_complete(typed):
            _run(shell, typed)
            typed = ""


def _run(shell: Shell, script: str) -> None:
    try:
        for statement in split(script):
            if shell.run_statement(statement) != OK:
                return
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
