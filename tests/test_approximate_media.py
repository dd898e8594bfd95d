"""Approximate answers over pictures of a video: neighbours, features, and what goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlsql
from mlsql.errors import MediaError
from mlsql.exec.approximate.calibration import calibrated, drawn_chance
from mlsql.exec.approximate.field import Track, guess
from mlsql.exec.approximate.labelling import _prove, label_until_proved
from mlsql.exec.approximate.labels import Labels
from mlsql.planner.approximate_score import Atom
from mlsql.planner.estimate.total import Goal, TotalBound, proof_labels

RNG = np.random.default_rng(3)
FILES, LONG = 10, 300
SIZE = FILES * LONG
TRACK = Track(np.repeat(np.arange(FILES), LONG), np.tile(np.arange(LONG), FILES).astype(float))


def _smooth() -> np.ndarray:
    """Counts that change slowly within each file, as those of a fixed camera do."""
    level = np.repeat(RNG.normal(6, 3, FILES), LONG)
    wave = 3 * np.sin(np.arange(SIZE) / 25) + RNG.normal(0, 0.7, SIZE)
    return np.clip(np.rint(level + wave), 0, None)


COUNTS = _smooth()


def _labels(features: Any = None) -> Labels:
    truth = COUNTS >= 10
    return Labels(lambda rows: np.stack([truth[rows], COUNTS[rows]], 1).astype(float), SIZE,
                  Atom(0, ">=", 10.0), TRACK, features)


def test_neighbours_foretell_a_row() -> None:
    rows = np.arange(0, SIZE, 15)
    found = guess(TRACK, rows, COUNTS[rows])
    error = np.mean((found.mean - COUNTS) ** 2)
    assert error < 0.25 * COUNTS.var() and found.explained > 0.5


def test_calibrated_chances_come_true_as_often_as_they_say() -> None:
    raw = RNG.uniform(0, 1, 4000)
    labels = RNG.uniform(0, 1, 4000) < raw**2  # the guess is too bold
    chances = calibrated(raw, raw, labels)
    assert abs(chances.sum() - labels.sum()) < 0.1 * labels.sum()
    assert (np.diff(chances[np.argsort(raw)]) >= -1e-9).all()


@pytest.mark.parametrize("kind", ["neighbours", "constant", "random"])
def test_recall_is_kept_whatever_the_guess(kind: str) -> None:
    truth, misses = COUNTS >= 10, 0
    features = {"neighbours": None, "constant": np.ones((SIZE, 3), np.float32),
                "random": RNG.normal(size=(SIZE, 3)).astype(np.float32)}[kind]
    for seed in range(3):
        labels = _labels(features)
        labels.look(np.arange(7, SIZE, 50))
        proof = label_until_proved(labels, Goal(0.9), 0.05, np.random.default_rng(seed),
                                   allowed=lambda count: count)
        assert proof is not None
        returned = labels.label & labels.seen
        assert not (returned & ~truth).any()
        misses += returned.sum() < 0.9 * truth.sum()
        assert proof.exact or proof.recall >= 0.9
    assert misses == 0


def test_an_inverted_guess_costs_labels_and_not_the_promise() -> None:
    truth = COUNTS >= 10

    class Inverted(Labels):
        def refit(self) -> None:
            self.chances = np.where(truth, 0.01, 0.9) + RNG.uniform(0, 0.01, SIZE)

    labels = Inverted(lambda rows: np.stack([truth[rows], COUNTS[rows]], 1).astype(float), SIZE,
                      Atom(0, ">=", 10.0), TRACK)
    proof = label_until_proved(labels, Goal(0.9), 0.05, RNG, allowed=lambda count: count)
    assert proof is not None and int(labels.seen.sum()) <= SIZE
    assert (labels.label & labels.seen).sum() >= 0.9 * truth.sum()


def test_a_proof_of_rare_rows_takes_a_share_of_the_rest() -> None:
    # (1 - f)^(m+1) <= 0.05 with m = 5 of 51: 39 in a hundred, whatever the proxy.
    assert 0.3 < proof_labels(46, 0, 14_000, Goal(0.9), 0.05) / 14_000 < 0.5


@pytest.mark.parametrize(("op", "bound", "chances"), [
    (">=", 0.5, [0.2, 0.9]), ("<", 1, [0.8, 0.1]), ("=", 0, [0.8, 0.1]), ("<>", 2, [1, 1])])
def test_chances_of_values_that_are_0_or_1(op: str, bound: float, chances: list[float]) -> None:
    assert drawn_chance(Atom(0, op, bound), np.array([0.2, 0.9]), 0.01) == pytest.approx(chances)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A clip of 600 pictures whose brightness rises and falls."""
    return _waves(tmp_path_factory.mktemp("approximate") / "waves.mp4", 600, 64)


@pytest.fixture(scope="module")
def long_video(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same, of 8,000 small pictures."""
    return _waves(tmp_path_factory.mktemp("approximate") / "long.mp4", 8000, 32)


def _waves(path: Path, count: int, side: int) -> str:
    import av

    with av.open(str(path), "w") as file:
        stream = file.add_stream("mpeg4", rate=25)
        stream.width = stream.height = side
        stream.pix_fmt = "yuv420p"
        for i in range(count):
            picture = np.full((side, side, 3), int(120 + 90 * np.sin(i / 30)), np.uint8)
            for packet in stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")):
                file.mux(packet)
        for packet in stream.encode():
            file.mux(packet)
    return str(path)


class Looking:
    """A session whose model sees whether a picture is bright, and counts what it looked at."""

    def __init__(self, **config: Any) -> None:
        self.calls = 0
        self.session = mlsql.connect(config={"cache": False, **config})

        def bright(pictures: list[Any]) -> list[bool]:
            self.calls += len(pictures)
            return [bool(np.asarray(p).mean() > 180) for p in pictures]

        self.session.register_model(bright, name="bright", task="predict",
                                    input="image", output="BOOLEAN")

    def run(self, sql: str) -> mlsql.Result:
        self.calls = 0
        return self.session.execute(sql)


def _bright(i: int) -> bool:
    return 120 + 90 * np.sin(i / 30) > 181


def test_a_recall_target_over_a_video(video: str) -> None:
    s = Looking()
    sql = f"SELECT frame_id FROM '{video}' WHERE bright(frame)"
    truth = {row for (row,) in s.run(sql).fetchall()}
    found = s.run(f"{sql} RECALL TARGET 90%")
    rows = {row for (row,) in found.fetchall()}
    assert rows <= truth and len(rows) >= 0.9 * len(truth) > 100 and s.calls <= 600
    assert found.approximate is not False


@pytest.mark.parametrize(("condition", "seed"), [
    ("bright(frame)", 0), ("NOT bright(frame)", 1), ("bright(frame) OR frame_id < 40", 2)])
def test_auto_precision_decides_nearly_every_row_as_exact(
    long_video: str, condition: str, seed: int
) -> None:
    s = Looking(precision="auto", seed=seed)
    sql = f"SELECT frame_id FROM '{long_video}' WHERE {condition} ORDER BY frame_id"
    found = s.run(sql)
    rows, calls = [row for (row,) in found.fetchall()], s.calls
    s.session.execute("SET precision = 'fp32'")
    truth = {row for (row,) in s.run(sql).fetchall()}
    assert len(truth ^ set(rows)) <= 8 and rows == sorted(rows) and calls < 5600
    report: Any = found.approximate
    assert report.target == "0.999 of the rows as in fp32 AT CONFIDENCE 0.95"
    assert "wrong proved by" in report.method and report.recall is None


def test_limit_takes_the_likeliest(video: str) -> None:
    s = Looking(limit_takes="likeliest")
    sql = f"SELECT frame_id FROM '{video}' WHERE frame_id >= 60 AND bright(frame) LIMIT 8"
    rows = [row for (row,) in s.run(sql).fetchall()]
    assert len(rows) == 8 and all(_bright(i) or _bright(i + 1) for i in rows)
    assert s.calls < 100  # in the order of rows the first is behind 140 others


def test_features_that_cannot_be_made_cost_a_note(
    video: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlsql.exec.approximate.features as features

    def broken(*_: Any) -> None:
        raise MediaError("no thumbnails today")

    monkeypatch.setattr(features, "features_of", broken)
    monkeypatch.setattr("mlsql.exec.approximate.selection._EXPLAINED", 2.0)  # never enough
    s = Looking()
    found = s.run(f"SELECT frame_id FROM '{video}' WHERE bright(frame) RECALL TARGET 80% UNCHECKED")
    assert any("no thumbnails today" in said for said in found.warnings)
    truth = {i for i in range(600) if _bright(i)}
    assert len({row for (row,) in found.fetchall()} & truth) >= 0.8 * len(truth)


def test_features_are_made_only_where_neighbours_explain_little(
    video: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlsql.exec.approximate.features as features

    made: list[int] = []

    def constant(values: Any, *_: Any) -> np.ndarray:
        made.append(len(values))
        return np.zeros((len(values), 2), np.float32)

    monkeypatch.setattr(features, "features_of", constant)
    s = Looking()
    sql = f"SELECT frame_id FROM '{video}' WHERE"
    s.run(f"{sql} bright(frame) RECALL TARGET 80% UNCHECKED")
    assert made == []  # brightness rises and falls slowly
    noise = np.random.default_rng(5)

    def coin(pictures: list[Any]) -> list[bool]:
        return (noise.random(len(pictures)) < 0.5).tolist()

    s.session.register_model(coin, name="coin", task="predict", input="image",
                             output="BOOLEAN")
    found = s.run(f"{sql} coin(frame) RECALL TARGET 80% UNCHECKED")
    assert made == [600] and any("constant" in said for said in found.warnings)


def test_features_are_kept_under_the_content(
    video: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlsql.exec.approximate.selection._EXPLAINED", 2.0)  # never enough
    s = Looking(cache=True, cache_dir=str(tmp_path))
    sql = f"SELECT frame_id FROM '{video}' WHERE bright(frame) PRECISION TARGET 80%"
    rows = s.run(sql).fetchall()
    (kept,) = (tmp_path / "features").glob("*.npy")
    assert np.load(kept, allow_pickle=False).shape == (600, 576)
    truth = {i for i in range(600) if _bright(i) or _bright(i + 1) or _bright(i - 1)}
    assert rows and sum(row in truth for (row,) in rows) >= 0.8 * len(rows)
    kept.write_bytes(b"torn")
    assert len(s.run(sql.replace("80%", "81%")).fetchall()) > 0


def test_a_mean_over_the_demo_video_with_the_real_detector(bikes: Path) -> None:
    s = mlsql.connect()
    exact = f"SELECT AVG(COUNT_OBJECTS(frame, 'person')) FROM '{bikes}'"
    found = s.execute(f"{exact} ERROR WITHIN 3 AT CONFIDENCE 90%")
    low, high = found.interval or (0.0, 0.0)
    spent = found.stats.calls
    ((truth,),) = s.execute(exact).fetchall()
    assert low <= truth <= high and 0 < spent < 250
    assert any("count_cap" in said for said in found.warnings)


def test_a_sample_that_grows_keeps_its_promise_where_just_too_much_is_hidden() -> None:
    misses, trials = 0, 400
    for seed in range(trials):
        truth = np.zeros(3000, bool)
        truth[:300] = truth[1000:1037] = True  # 300 of 337 found: a recall of 0.89
        labels = Labels(lambda rows, t=truth: np.stack([t[rows], t[rows]], 1).astype(float),
                        3000, Atom(0, ">=", 1.0), Track(np.full(3000, -1), np.zeros(3000)))
        labels.look(np.arange(300))
        bound = TotalBound(3000, 0.1)
        _prove(labels, bound, 300, Goal(0.9), np.random.default_rng(seed), lambda count: count)
        misses += bound.at_most < 337
    assert 0 < misses <= 0.1 * trials + 3 * (0.09 * trials) ** 0.5
