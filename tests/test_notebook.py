"""Notebooks run without a front end, and their pages looked at in a browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

Outputs = list[dict[str, Any]]
SCRIPT = "<script>document.title = 'alert'</script>"

CELLS = {
    "load": """\
%load_ext mlsql
import os, signal, time
import mlsql
from mlsql.demo import video

con = mlsql.connect(config={"batch_size": 4})

seen = stopped = 0

@mlsql.model(task="predict", output="DOUBLE", version="1")
def slow(pictures):
    global seen, stopped
    seen += len(pictures)
    if seen >= 24 and not stopped:  # somebody presses the stop button
        stopped = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)
    time.sleep(0.1 * len(pictures))
    return [float(picture.mean()) for picture in pictures]

con.register_model(slow)
bikes = video()
%mlsql con""",
    "stopped": "%%mlsql\nSELECT sum(slow(frame)) FROM '{{bikes}}'",
    "how long": "print(time.monotonic() - stopped)",
    "again": "%%mlsql again <<\nSELECT slow(frame) AS s FROM '{{bikes}}' WHERE frame_id < 40",
    "kept": "print(again.stats.calls, again.stats.cached)",
    "wrong": "%%mlsql\nSELECT frame_id,\n  slow(fram)\nFROM '{{bikes}}'",
    "label": f"label = {SCRIPT!r}\n%mlsql r = << SELECT frame, [{{'label': :label, 'score': 0.9, "
             "'x1': 200, 'y1': 80, 'x2': 640, 'y2': 272}] AS found, NULL AS nothing, "
             "'None' AS word FROM '{{bikes}}' WHERE frame_id = 100",
    "file": "%mlsql SELECT path, image FROM read_images('pictures/*/*')",
    "wide": "%mlsql SELECT repeat('long ', 200) AS words, repeat('x', 500) AS word, "
            "'{{bikes}}' AS a, '{{bikes}}' AS b, '{{bikes}}' AS c",
    "plan": "%mlsql EXPLAIN SELECT ts FROM '{{bikes}}' WHERE CONTAINS(frame, 'car')",
    "image": "r.fetchone()[0]",
    "torn": "mlsql.Image('torn.jpg')",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Path:
    """Where notebooks run: a picture in a file with markup in its name, and one that is torn."""
    from skimage import data_dir

    found = tmp_path_factory.mktemp("notebooks")
    (found / "pictures" / "<b>x<").mkdir(parents=True)
    shutil.copy(Path(data_dir) / "coffee.png", found / "pictures" / "<b>x<" / "b>.jpg")
    (found / "torn.jpg").write_bytes(b"\xff\xd8\xff\xe0")
    return found


@pytest.fixture(scope="module")
def environment(folder: Path, root: Path) -> dict[str, str]:
    path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {**os.environ, "PYTHONPATH": path, "MLSQL_CACHE_DIR": str(folder / "cache"),
            "IPYTHONDIR": str(folder / "ipython"), "JUPYTER_PLATFORM_DIRS": "1"}


@pytest.fixture(scope="module")
def hard(folder: Path, environment: dict[str, str]) -> nbformat.NotebookNode:
    """The cells above, run by nbclient."""
    cells = [new_code_cell(source, id=name.replace(" ", "-")) for name, source in CELLS.items()]
    book = new_notebook(cells=cells)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        NotebookClient(book, timeout=200, allow_errors=True, kernel_name="python3",
                       resources={"metadata": {"path": str(folder)}}).execute()
    return book


@pytest.fixture(scope="module")
def example(folder: Path, environment: dict[str, str], root: Path) -> nbformat.NotebookNode:
    """The example notebook, run by `jupyter execute`."""
    output = folder / "street.ipynb"
    done = subprocess.run(
        [sys.executable, "-m", "jupyter", "execute", f"--output={output}",
         str(root / "examples" / "street.ipynb")],
        capture_output=True, text=True, env=environment, cwd=folder, timeout=280)
    assert done.returncode == 0, done.stderr
    return nbformat.read(output, 4)


def outputs(book: nbformat.NotebookNode, name: str) -> Outputs:
    place = list(CELLS).index(name)
    return [dict(output) for output in book.cells[place].outputs]


def said(book: nbformat.NotebookNode, name: str) -> str:
    return "".join(output.get("text", "") for output in outputs(book, name))


def test_the_stop_button(hard: nbformat.NotebookNode) -> None:
    *bars, error = outputs(hard, "stopped")
    assert error["output_type"] == "error" and error["ename"] == "KeyboardInterrupt"
    assert error["traceback"] == ["stopped: what was computed is kept"]
    assert len(bars) == 1
    assert re.match(r"stopped · frames \d+/250 · ", bars[0]["data"]["text/plain"])
    assert float(said(hard, "how long")) < 3
    calls, cached = map(int, said(hard, "kept").split())
    assert calls + cached == 40
    assert cached >= 4  # a batch at least: how many it were depends on the machine


def test_one_bar_that_ends_as_a_line(hard: nbformat.NotebookNode) -> None:
    bars = outputs(hard, "again")
    assert [bar["output_type"] for bar in bars] == ["display_data"]
    line = bars[0]["data"]["text/plain"]
    assert line.startswith("frames 40/40 · ") and "left" not in line and "model calls" in line
    assert line in bars[0]["data"]["text/html"]
    assert "width:" not in bars[0]["data"]["text/html"]


def test_an_error_is_no_wall(hard: nbformat.NotebookNode) -> None:
    [error] = outputs(hard, "wrong")
    assert error["ename"] == "ProgrammingError"
    message, source, caret = error["traceback"]
    assert message.startswith("error: ") and message.endswith("(line 2, column 8)")
    assert source[caret.index("^"):] == "fram)"


def test_pictures_of_a_notebook(hard: nbformat.NotebookNode) -> None:
    [image] = outputs(hard, "image")
    assert set(image["data"]) == {"image/png", "text/plain"}
    [torn] = outputs(hard, "torn")
    assert set(torn["data"]) == {"text/html", "text/plain"}


def test_the_example(example: nbformat.NotebookNode) -> None:
    shown = [output for cell in example.cells for output in cell.get("outputs", [])]
    assert not [output for output in shown if output["output_type"] == "error"]
    html = "".join(output.get("data", {}).get("text/html", "") for output in shown)
    assert html.count("<img ") == 10
    assert re.search(r'class="box" title="bicycle 0\.\d\d"', html)
    assert "0 model calls, 3 answers from the cache" in html
    assert "&#x27;car&#x27;" in html and "candidates" in html  # the plan
    assert all("text/plain" in output["data"] for output in shown if "data" in output)


LOOK = """
<pre id="report"></pre>
<script>
function light(c) {
  const [r, g, b] = c.map(v => { v /= 255; return v <= .03928 ? v / 12.92
    : ((v + .055) / 1.055) ** 2.4; });
  return .2126 * r + .7152 * g + .0722 * b;
}
function parts(c) { return c.match(/[\\d.]+/g).map(Number); }
function over(top, below) { const a = top.length > 3 ? top[3] : 1;
  return [0, 1, 2].map(i => top[i] * a + below[i] * (1 - a)); }
function ground(e) { const stack = [];
  for (; e; e = e.parentElement) stack.push(parts(getComputedStyle(e).backgroundColor));
  return stack.reverse().reduce((below, top) => over(top, below), [255, 255, 255]); }
function contrast(e) {
  const style = getComputedStyle(e), below = ground(e);
  let opacity = 1;
  for (let x = e; x; x = x.parentElement) opacity *= Number(getComputedStyle(x).opacity);
  const colour = parts(style.color);
  const text = over([...colour.slice(0, 3), (colour[3] ?? 1) * opacity], below);
  const [a, b] = [light(text), light(below)].sort((x, y) => y - x);
  return (a + .05) / (b + .05);
}
const page = document.documentElement;
const texts = [...document.querySelectorAll('.mlsql *')].filter(e => e.tagName !== 'STYLE' &&
  [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()));
const out = [...document.querySelectorAll('.mlsql .pic')].filter(pic => {
  const p = pic.getBoundingClientRect(), i = pic.querySelector('img').getBoundingClientRect();
  return Math.abs(p.width - i.width) > 1 || Math.abs(p.height - i.height) > 1 ||
    [...pic.querySelectorAll('.box')].some(box => { const b = box.getBoundingClientRect();
      return b.width < 4 || b.left < p.left - 1 || b.right > p.right + 1 ||
        b.top < p.top - 1 || b.bottom > p.bottom + 1; }); });
document.getElementById('report').textContent = JSON.stringify({
  title: document.title,
  images: [...document.querySelectorAll('.mlsql img')].map(i => i.naturalWidth),
  boxes: document.querySelectorAll('.mlsql .box').length,
  out: out.length,
  beyond: page.scrollWidth - page.clientWidth,
  texts: texts.length,
  contrast: Math.min(...texts.map(contrast)),
  dark: light(ground(document.body)) < .1,
  words: [...document.querySelectorAll('.mlsql')].map(e => e.innerText).join('\\n'),
});
</script>
"""


def look(book: nbformat.NotebookNode, folder: Path, theme: str, width: int) -> dict[str, Any]:
    """What a browser makes of a notebook's page."""
    from nbconvert import HTMLExporter

    browser = next(filter(None, map(shutil.which, (
        "chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        pytest.skip("no chromium: apt-get install chromium")
    exporter = HTMLExporter(theme=theme, require_js_url="", mathjax_url="", jquery_url="")
    html, _ = exporter.from_notebook_node(book)
    page = folder / f"{theme}{width}.html"
    page.write_text(html.replace("</body>", LOOK + "</body>"), encoding="utf-8")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
         f"--user-data-dir={folder / 'chromium'}", f"--window-size={width},2000", "--dump-dom",
         page.as_uri()], capture_output=True, text=True, timeout=120)
    report = re.search(r'<pre id="report">(\{.*?)</pre>', done.stdout, re.DOTALL)
    assert report is not None, done.stderr
    from html import unescape

    found: dict[str, Any] = json.loads(unescape(report[1]))
    return found


@pytest.mark.parametrize(("theme", "width"), [("light", 1200), ("dark", 700)])
def test_the_page_in_a_browser(
    hard: nbformat.NotebookNode, example: nbformat.NotebookNode, folder: Path, theme: str,
    width: int,
) -> None:
    both = new_notebook(cells=[*hard.cells, *example.cells])
    for number, cell in enumerate(both.cells):
        cell["id"] = f"cell-{number}"
    seen = look(both, folder, theme, width)
    assert seen["dark"] is (theme == "dark")
    assert len(seen["images"]) == 12 and min(seen["images"]) > 100
    assert seen["boxes"] > 10
    assert seen["out"] == 0
    assert seen["beyond"] <= 0
    assert seen["texts"] > 100 and seen["contrast"] >= 4.5
    assert seen["title"] != "alert" and f"{SCRIPT} 0.90" in seen["words"]
    assert "<b>x</b>.jpg" in seen["words"]
