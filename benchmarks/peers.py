"""The same query in other engines: `python benchmarks/peers.py --clips 6 [--file t.md] [names]`.

Each peer is installed into an environment of its own below --folder, where it stays for the next
time. All run the same ONNX file over the same clips: the query, the query again, LIMIT 5, and the
average count. mlsql and the plain loop run in this environment. A peer that fails is shown with
its last line; one that takes longer than --patience seconds as such.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

from detector import LEAST, ROOT, SCORE, Counter, clips, frames, onnx_file, vehicles

PEERS = {
    "duckdb": ("duckdb_function.py", ["duckdb", "pyarrow"]),
    "daft": ("daft_frames.py", ["daft", "av", "pillow"]),
    "ray": ("ray_data.py", ["ray[data]", "decord"]),
}
COMMON = ["numpy", "onnxruntime", "opencv-python-headless"]
TASKS = ("where", "again", "limit", "avg")


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(PEERS)}; all without")
    parser.add_argument("--clips", type=int, default=None, help="so many of the 55")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "mlsql-peers")
    parser.add_argument("--patience", type=float, default=1800.0)
    parser.add_argument("--file", type=Path, default=None, help="where the table is written, too")
    given = parser.parse_args()
    given.folder.mkdir(exist_ok=True)
    prepare(given.folder)
    paths = clips(given.clips)
    found: dict[str, Any] = {"mlsql": ours(paths), "plain loop": plain(given.folder, paths)}
    for name in given.names or PEERS:
        found[name] = peer(name, given.folder, paths, given.patience)
    text = table(found)
    print(text)
    if given.file:
        given.file.write_text(text, encoding="utf-8")


def prepare(folder: Path) -> None:
    """What the peers' scripts read: the network, its anchors, the vehicles' columns."""
    import numpy as np

    from mlsql.udfs.labels_coco import COCO_LABELS
    from mlsql.udfs.models._boxes import anchors

    onnx_file(folder)
    columns = np.array([COCO_LABELS.index(name) for name in vehicles()])
    np.savez(folder / "detector.npz", anchors=anchors(), columns=columns)


def ours(paths: list[str]) -> list[tuple[float, Any]]:
    """mlsql with no outputs kept but for the second run, loading of the model included.

    What it keeps about the machine, such as the network's other form, is there from a small run.
    """
    import mlsql

    call = f"COUNT_OBJECTS(frame, 'vehicle', min_score => {SCORE})"
    where = f"FROM read_video($paths) WHERE {call} >= {LEAST}"
    queries = [f"SELECT count(*) {where}"] * 2 + [
        f"SELECT count(*) FROM (SELECT frame_id {where} LIMIT 5)",
        f"SELECT avg({call}) FROM read_video($paths)"]
    answers = []
    with tempfile.TemporaryDirectory() as cache:
        session = mlsql.connect(config={"cache_dir": cache})
        session.execute(queries[2].replace("LIMIT 5", "LIMIT 1"), {"paths": paths}).fetchall()
        for number, query in enumerate(queries):
            if number != 1:
                session.close()
                shutil.rmtree(Path(cache) / "outputs")
                session = mlsql.connect(config={"cache_dir": cache})
            started = time.perf_counter()
            answer = session.execute(query, {"paths": paths}).fetchall()[0][0]
            answers.append((time.perf_counter() - started, answer))
        session.close()
    return answers


def plain(folder: Path, paths: list[str]) -> list[tuple[float, Any]]:
    """A loop over onnxruntime, as in plain_onnxruntime.py."""
    import onnxruntime

    count, answers = Counter(), []
    for task in TASKS:
        started = time.perf_counter()
        session = onnxruntime.InferenceSession(folder / "ssd_mobilenet_v2.onnx")
        counts: list[int] = []
        for picture in (p for path in paths for p in frames(path)):
            counts.append(count(session.run(None, {"pictures": picture[None]})[0][0]))
            if task == "limit" and sum(n >= LEAST for n in counts) == 5:
                break
        answer = sum(counts) / len(counts) if task == "avg" else sum(n >= LEAST for n in counts)
        answers.append((time.perf_counter() - started, answer))
    return answers


def peer(name: str, folder: Path, paths: list[str], patience: float) -> list[Any]:
    """A peer's seconds and answers, as far as it got, and what went wrong."""
    script, packages = PEERS[name]
    python = folder / name / "bin" / "python"
    if not python.exists():
        venv.create(folder / name, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *COMMON, *packages], check=True)
    command = [str(python), str(ROOT / "benchmarks" / "peers" / script), str(folder), *paths]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        out, said = process.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        process.kill()
        out, said = process.communicate()
        said += f"\nnot done after {patience:.0f} s"
    found: list[Any] = []
    for line in (line for line in out.splitlines() if line.startswith("{")):
        told = json.loads(line)
        found.append((told["seconds"], told["answer"]))
    if len(found) < len(TASKS):
        found.append((said.strip().splitlines() or ["it stopped"])[-1][:80])
    return found


def table(found: dict[str, Any]) -> str:
    """Seconds, and answers where they are not mlsql's."""
    lines = ["| engine | the query, s | again, s | LIMIT 5, s | AVG, s |", "|---|---|---|---|---|"]
    for name, tasks in found.items():
        cells = []
        for number in range(len(TASKS)):
            told = tasks[number] if number < len(tasks) else "-"
            if isinstance(told, str):
                cells.append(told)
                continue
            same = abs(float(told[1]) - float(found["mlsql"][number][1])) < 0.01
            cells.append(f"{told[0]:.2f}" + ("" if same else f" (answer {told[1]})"))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
