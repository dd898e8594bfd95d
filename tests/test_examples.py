"""Every example runs, and says something true."""

from __future__ import annotations

import csv
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from datasets import skimage_pictures

EXAMPLES = sorted(p.name for p in (Path(__file__).parent.parent / "examples").iterdir()
                  if p.suffix in (".sql", ".py"))


@pytest.fixture
def folder(bikes: Path, tmp_path: Path) -> Path:
    """A folder with what the examples want."""
    (tmp_path / "bikes.mp4").symlink_to(bikes)
    (tmp_path / "photos").mkdir()
    for name in skimage_pictures.FILES:
        shutil.copy(skimage_pictures.where() / name, tmp_path / "photos")
    return tmp_path


def run(words: list[str], folder: Path, root: Path) -> str:
    path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=folder,
                          env={**os.environ, "PYTHONPATH": path}, timeout=280)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows(name: str, folder: Path, root: Path) -> list[dict[str, str]]:
    out = run(["-m", "mlsql", "--format", "csv", "-f", str(root / "examples" / name)], folder, root)
    return list(csv.DictReader(io.StringIO(out)))


def test_moments(folder: Path, root: Path) -> None:
    runs = rows("moments.sql", folder, root)
    assert sum(int(run["frames"]) for run in runs) >= 10
    for one in runs:
        assert 4 <= float(one["start_s"]) <= float(one["end_s"]) < 5.6
        assert 0.3 < float(one["surest"]) <= 1


def test_traffic(folder: Path, root: Path) -> None:
    seconds = rows("traffic.sql", folder, root)
    assert [int(one["second"]) for one in seconds] == list(range(10))
    assert all(int(one["vehicles"]) >= int(one["cars"]) for one in seconds)
    assert sum(int(one["cars"]) for one in seconds) > 5


def test_boxes(folder: Path, root: Path) -> None:
    boxes = rows("boxes.sql", folder, root)
    assert {"person", "bicycle"} <= {box["label"] for box in boxes}
    scores = [float(box["score"]) for box in boxes]
    assert scores == sorted(scores, reverse=True)
    assert min(scores) >= 0.4
    assert all(0 < int(box["width"]) <= 640 and 0 < int(box["height"]) <= 272 for box in boxes)


def test_pictures(folder: Path, root: Path) -> None:
    found = {one["file"]: one for one in rows("pictures.sql", folder, root)}
    assert "cat" in found["chelsea.png"]["label"] or found["chelsea.png"]["label"] == "tabby"
    assert found["chelsea.png"]["animal"] == "true"
    assert found["coffee.png"]["animal"] == "false"
    assert found["rocket.jpg"]["label"] in ("missile", "projectile")


def test_own_model(folder: Path, root: Path) -> None:
    out = run(["-m", "examples.own_model"], folder, root)
    light = [float(line.split("│")[3]) for line in out.splitlines()[4:9]]
    assert light == sorted(light, reverse=True)
    assert 0 < light[-1] <= light[0] < 1
    assert out.endswith("20 calls\n")


def test_frames(folder: Path, root: Path) -> None:
    out = run(["-m", "examples.frames"], folder, root)
    assert "bicycle: double" in out
    assert (folder / "bicycle.png").read_bytes().startswith(b"\x89PNG")


def test_every_example_is_tested() -> None:
    tested = set(re.findall(r'"(?:-m", "examples\.)?(\w+)(?:\.sql)?"', Path(__file__).read_text()))
    assert {Path(name).stem for name in EXAMPLES} <= tested
