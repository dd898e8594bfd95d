"""The pages of docs/ keep their word: what they show is run, and what they answer holds.

What a block's language means here:

    sql       run in the page's session, in the order of the page
    python    run in the page's namespace
    ipython   cells for a notebook, run in an IPython shell
    console   `$ ` before a command, run by bash; then what it prints
    text      right after a sql or python block: its rows as a table, or what it prints
    sh        for the reader to type, not run; so is any other language

The folder in which all this runs has bikes.mp4, the demo's video, and some pictures in photos/; a
page begins with an empty cache.
Numbers are compared to two digits after the point, seconds of work not at all, and a line that is
only `…` stands for any lines. `<!-- not run: why -->` before a block leaves it out.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import mlsql
from datasets import skimage_pictures

ROOT = Path(__file__).parent.parent
# sql.md and settings.md are run by test_reference_docs.py, the README by test_readme.py.
PAGES = sorted(page for page in (ROOT / "docs").glob("*.md")
               if page.stem not in ("sql", "settings"))
RUN = ("sql", "python", "ipython", "console")
_BLOCK = re.compile(
    r"^(?P<skip><!-- not run: .+ -->\n\n?)?```(?P<language>\w*)\n(?P<text>.*?)^```$(?P<after>\n*)",
    re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A block to run: its line, language and text, and the output shown below it, if any."""

    line: int
    language: str
    text: str
    output: str | None = None


def blocks(page: str) -> Iterator[Block]:
    """The blocks of a page that are run."""
    found = list(_BLOCK.finditer(page))
    for at, block in enumerate(found):
        if block["skip"] or block["language"] not in RUN:
            continue
        following = found[at + 1] if at + 1 < len(found) else None
        directly = following is not None and following.start() == block.end()
        output = following["text"] if directly and following["language"] == "text" else None
        line = page.count("\n", 0, block.start("language")) + 1
        yield Block(line, block["language"], block["text"], output)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the pages read."""
    from mlsql.demo import video

    found = tmp_path_factory.mktemp("docs")
    (found / "bikes.mp4").symlink_to(video())
    (found / "photos").mkdir()
    for name in skimage_pictures.FILES:
        shutil.copy(skimage_pictures.where() / name, found / "photos")
    return found


class Reader:
    """Does what a page says, in order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "page"}
        self.session = mlsql.connect()
        self.shell: Any = None

    def run(self, block: Block) -> str | None:
        """What a block prints; None where nothing is shown of it."""
        match block.language:
            case "sql":
                return repr(self.session.execute(block.text))
            case "python":
                with redirect_stdout(io.StringIO()) as printed:
                    exec(compile(block.text, f"line {block.line}", "exec"), self.names)
                return printed.getvalue()
            case "ipython":
                self._cell(block.text)
            case "console":
                return "".join(map(self._command, commands(block.text)))
        return None

    def _cell(self, text: str) -> None:
        if self.shell is None:
            from IPython.core.interactiveshell import InteractiveShell
            from traitlets.config import Config

            config = Config()
            config.HistoryManager.enabled = False
            config.InteractiveShell.ipython_dir = str(self.folder / "ipython")
            self.shell = InteractiveShell.instance(config=config)
        self.shell.run_cell(text).raise_error()

    def _command(self, command: str) -> str:
        bin = Path(sys.executable).parent
        path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "PYTHON": sys.executable,
                       "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}"}
        script = f'mlsql() {{ "$PYTHON" -m mlsql "$@"; }}\n{command}'
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True,
                              cwd=self.folder, env=environment, timeout=200)
        return f"$ {command}\n{done.stdout}{done.stderr}"

    def close(self) -> None:
        self.session.close()
        if self.shell is not None:
            type(self.shell).clear_instance()


def commands(text: str) -> list[str]:
    """The commands of a console block, which go on in the next line where a quote is open."""
    found: list[str] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(line[2:])
        elif found and unfinished(found[-1]):
            found[-1] += f"\n{line}"
    return found


def unfinished(command: str) -> bool:
    return command.endswith("\\") or command.count('"') % 2 == 1


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "120")
    reader = Reader(folder)
    try:
        for block in blocks(page.read_text(encoding="utf-8")):
            where = f"{page.name}, line {block.line}"
            try:
                printed = reader.run(block)
            except Exception as error:
                raise AssertionError(f"{where}: {type(error).__name__}: {error}") from error
            wanted = block.text if block.language == "console" else block.output
            if wanted is not None:
                assert agree(wanted, printed or ""), f"{where}:\n{printed}"
    finally:
        reader.close()


def agree(shown: str, printed: str) -> bool:
    """Whether what was printed is what the page shows."""
    parts = [re.escape(plain(part)) for part in re.split(r"^…\n", shown, flags=re.MULTILINE)]
    return re.fullmatch(r"[\s\S]*".join(parts), plain(printed)) is not None


def plain(text: str) -> str:
    """The text without what differs between runs and machines."""
    text = re.sub(r"\d+(\.\d+)? s\b", "N s", text)
    text = re.sub(r"\d+\.\d+", lambda found: f"{float(found[0]):.2f}", text)
    text = re.sub(r"[─ ]+", " ", text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


def test_blocks_are_found() -> None:
    page = ("```sql\nSELECT 1\n```\n\n```text\none\n```\n\n<!-- not run: why -->\n```sql\n"
            "SELECT 2\n```\nwords\n```console\n$ ls\na\n```\n\n```sh\nrm\n```\n")
    assert list(blocks(page)) == [
        Block(1, "sql", "SELECT 1\n", "one\n"), Block(14, "console", "$ ls\na\n")]
    assert commands("$ a \\\n  b\nout\n$ c \"d\ne\"\nout\n") == ["a \\\n  b", 'c "d\ne"']
    assert agree("a 0.1234\n…\nz\n", "a  0.1199\nb\nc\nz") and not agree("a 0.2", "a 0.1")
    assert agree("took 3 s", "took 0.21 s") and not agree("a\n", "a\nb\n")
