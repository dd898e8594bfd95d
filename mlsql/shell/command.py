"""The command line: read what is asked, run it, write the rows."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import mlsql
from mlsql.errors import Error, Interrupted
from mlsql.foreign import interruptible
from mlsql.result import Result
from mlsql.session import Session
from mlsql.shell.complaint import complaint
from mlsql.shell.formats import FORMATS, Options
from mlsql.shell.statements import Statement, split


class UnreadableScript(Exception):
    """The script to run cannot be read."""


OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130

_EXAMPLES = """\
mlsql demo                          what is in a street video, in SQL
mlsql -c "SELECT 1"                 one statement
mlsql shop.db -f report.sql         a script, on a database file
cat report.sql | mlsql --format csv the same from standard input
"""


def parser() -> argparse.ArgumentParser:
    """The options of `mlsql`."""
    words = argparse.ArgumentParser(
        prog="mlsql", description="SQL over models.", epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("database", nargs="?", default=":memory:", metavar="DB",
                       help="database file, made if absent; in memory without it")
    words.add_argument("-c", dest="commands", action="append", default=[], metavar="SQL",
                       help="run this; may be given several times")
    words.add_argument("-f", dest="file", metavar="FILE",
                       help="run the statements of a file; - is standard input")
    words.add_argument("--format", choices=FORMATS, default="table",
                       help="how rows are written (default: %(default)s)")
    words.add_argument("--no-header", action="store_true", help="leave the column names out")
    words.add_argument("--null-string", metavar="S", help="what stands for NULL")
    words.add_argument("--readonly", action="store_true", help="open DB without changing it")
    words.add_argument("--timer", action="store_true",
                       help="say on standard error how long each statement took")
    words.add_argument("--version", action="version", version=f"mlsql {mlsql.__version__}")
    return words


def main(argv: Sequence[str]) -> int:
    """Run the command with these words; gives the exit status."""
    words = parser()
    given = words.parse_args(argv)
    prompting = not given.commands and given.file is None and sys.stdin.isatty()
    try:
        scripts = [] if prompting else list(_scripts(given))
        with Session(given.database, read_only=given.readonly) as session:
            shell = Shell(session, given.format, _options(given), given.timer)
            if not prompting:
                return shell.run(scripts)
            from mlsql.shell.prompt import prompt

            return prompt(shell)
    except BrokenPipeError:
        # Whoever read the rows has left; what is still buffered must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except (KeyboardInterrupt, Interrupted):
        return INTERRUPTED
    except (Error, UnreadableScript) as error:
        print(complaint(error, None), file=sys.stderr)
        return FAILED


def _scripts(given: argparse.Namespace) -> Iterator[str]:
    """What is to run: every -c in order, then the file, or standard input without either."""
    yield from given.commands
    file = given.file if given.file is not None or given.commands else "-"
    if file is None:
        return
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        yield raw.decode("utf-8-sig")
    except OSError as error:
        raise UnreadableScript(f"cannot read {file!r}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UnreadableScript(f"{file!r} is not UTF-8: {error}") from None


def _options(given: argparse.Namespace) -> Options:
    terminal = sys.stdout.isatty()
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    return Options(
        null=given.null_string, header=not given.no_header,
        max_rows=40 if terminal else None,
        max_width=shutil.get_terminal_size().columns if terminal else None,
        ascii=not encoding.startswith("utf"),
        dim_null=terminal and "NO_COLOR" not in os.environ)


@dataclass(frozen=True)
class Shell:
    """A session and how its answers are written."""

    session: Session
    format: str
    options: Options
    timer: bool = False

    def run(self, scripts: Sequence[str]) -> int:
        """Run scripts up to the first error; gives the exit status."""
        for script in scripts:
            for statement in split(script):
                status = self.run_statement(statement)
                if status != OK:
                    return status
        return OK

    def run_statement(self, statement: Statement) -> int:
        """Run one statement: rows to standard output, anything else to standard error."""
        started = time.perf_counter()
        try:
            result = interruptible(lambda: self._answer(statement), self.session.interrupt)
        except Interrupted:
            return INTERRUPTED
        except Error as error:
            sys.stdout.flush()
            print(complaint(error, statement), file=sys.stderr)
            return FAILED
        for warning in result.warnings:
            print(complaint(UserWarning(warning), None).replace("error", "warning", 1),
                  file=sys.stderr)
        if self.timer:
            print(_cost(time.perf_counter() - started, result), file=sys.stderr)
        return OK

    def _answer(self, statement: Statement) -> Result:
        result = self.session.execute(statement.text)
        if result.description is not None and not _counts_changes(statement, result):
            for piece in FORMATS[self.format](result, self.options):
                sys.stdout.write(piece)
        sys.stdout.flush()
        return result


def _counts_changes(statement: Statement, result: Result) -> bool:
    """Whether the only row is how many rows an INSERT or its like changed; nobody asked for it."""
    if result.columns != ["Count"]:
        return False
    import duckdb

    try:
        kinds = [found.type for found in duckdb.extract_statements(statement.text)]
    except duckdb.Error:  # a statement of ours, such as EXPLAIN ANALYZE over a model
        return False
    return bool(kinds) and kinds[-1] not in (duckdb.StatementType.SELECT,
                                             duckdb.StatementType.EXPLAIN)


def _cost(seconds: float, result: Result) -> str:
    calls = f", {result.stats.calls:,} model calls, {result.stats.cached:,} cached"
    return f"{seconds:.3f} s" + (calls if result.stats.models else "")
