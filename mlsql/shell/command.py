"""The command line: its options, what they ask to be run, and the exit status."""

from __future__ import annotations

import argparse
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import mlsql
from mlsql.errors import Error, Interrupted
from mlsql.session import Session
from mlsql.shell.complaint import complaint, said
from mlsql.shell.formats import FORMATS, Options
from mlsql.shell.shell import FAILED, INTERRUPTED, OK, Leave, Shell


class UnreadableScript(Exception):
    """The script to run cannot be read."""


_EXAMPLES = """\
mlsql                               a prompt, where .help lists its commands
mlsql demo                          what is in a street video, in SQL
mlsql -c "SELECT 1"                 one statement
mlsql shop.db -f report.sql         a script, on a database file
cat report.sql | mlsql --format csv the same from standard input
mlsql cache                         what is kept of earlier answers, and how to forget it
"""

_EPILOG = f"""\
{_EXAMPLES}
Rows go to standard output, everything else to standard error. Without -c and -f, statements come
from standard input. The exit status is 0, 1 after an error, 2 for wrong usage, 130 after Ctrl-C.
"""


def parser() -> argparse.ArgumentParser:
    """The options of `mlsql`."""
    words = argparse.ArgumentParser(
        prog="mlsql", description="SQL over models.", epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("database", nargs="?", default=":memory:", metavar="DB",
                       help="database file, made if absent; in memory without it")
    words.add_argument("-c", dest="commands", action="append", default=[], metavar="SQL",
                       help="run this; may be given several times")
    words.add_argument("-f", dest="file", metavar="FILE",
                       help="run the statements of a file; - is standard input")
    words.add_argument("--format", choices=FORMATS, default="table",
                       help="how rows are written (default: %(default)s)")
    words.add_argument("--no-header", dest="header", action="store_false",
                       help="leave the column names out")
    words.add_argument("--null-string", metavar="S", help="what stands for NULL")
    words.add_argument("--on-error", choices=("stop", "continue"), default="stop",
                       help="what a script does after an error (default: %(default)s)")
    words.add_argument("--readonly", action="store_true", help="open DB without changing it")
    words.add_argument("--init", metavar="FILE",
                       help="run the statements of a file first, also before a prompt")
    words.add_argument("--timer", action="store_true",
                       help="say on standard error how long each statement took")
    words.add_argument("--version", action="version", version=f"mlsql {mlsql.__version__}")
    return words


def main(argv: Sequence[str]) -> int:
    """Run the command with these words; gives the exit status."""
    given = parser().parse_args(argv)
    prompting = not given.commands and given.file is None and sys.stdin.isatty()
    try:
        scripts = [] if prompting else list(_scripts(given))
        with Session(given.database, read_only=given.readonly) as session:
            return _run(_shell(session, given, prompting), given.init, scripts)
    except BrokenPipeError:
        # Whoever read the rows has left; what is still buffered must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (KeyboardInterrupt, Interrupted):
        return INTERRUPTED
    except (Error, UnreadableScript) as error:
        print(said(complaint(error, None)), file=sys.stderr)
        return FAILED


def _run(shell: Shell, init: str | None, scripts: Sequence[str]) -> int:
    """Run the file of --init, then the scripts, or the prompt where there are none."""
    try:
        status = OK if init is None else shell.run([_text(init)])
        if shell.prompting:
            from mlsql.shell.prompt import prompt

            return prompt(shell)
        if status != OK and shell.bail:
            return status
        return shell.run(scripts) or status
    except Leave as leave:
        return leave.status
    finally:
        shell.output.close()


def _shell(session: Session, given: argparse.Namespace, prompting: bool) -> Shell:
    if sys.stderr.isatty() and not _is_piped() and "MLSQL_PROGRESS" not in os.environ:
        session.settings.set("progress", True)
    return Shell(session, given.format, Options(null=given.null_string, header=given.header),
                 timer=given.timer or prompting, bail=given.on_error == "stop",
                 prompting=prompting)


def _is_piped() -> bool:
    """Whether another program reads the rows: it, not a bar, has the terminal then."""
    try:
        return stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def _scripts(given: argparse.Namespace) -> Iterator[str]:
    """What is to run: every -c in order, then the file, or standard input without either."""
    yield from given.commands
    file = given.file if given.file is not None or given.commands else "-"
    if file is not None:
        yield _text(file)


def _text(file: str) -> str:
    """The script in a file, or on standard input where it is -."""
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise UnreadableScript(f"cannot read {file!r}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UnreadableScript(f"{file!r} is not UTF-8: {error}") from None
