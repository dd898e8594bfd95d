"""The models a session knows, and which answers where none is named."""

from __future__ import annotations

import dataclasses

import pytest

from mlsql.errors import ProgrammingError, UnknownName
from mlsql.udfs.function import Models
from mlsql.udfs.registry import Registry, default_model, shipped
from mlsql.udfs.spec import DETECTIONS_TYPE, ModelSpec, classes_type


def detector(name: str, *labels: str) -> ModelSpec:
    return ModelSpec(name, "detect", DETECTIONS_TYPE, "nowhere:load", labels=labels)


def classifier(name: str, *labels: str) -> ModelSpec:
    return ModelSpec(name, "classify", classes_type(len(labels)), "nowhere:load", labels=labels)


@pytest.fixture
def registry() -> Registry:
    return Registry()


def test_the_shipped_models_are_found(registry: Registry) -> None:
    assert {"ssd_mobilenet_v2", "efficientnet_lite0"} <= set(registry.names())
    assert all(spec.weights and len(spec.sha256) == 64 and spec.licence for spec in shipped())
    assert registry.named("SSD_MobileNet_V2").labels[0] == "person"
    assert len({spec.fingerprint for spec in shipped()}) == len(shipped())


def test_an_unknown_model_names_the_nearest(registry: Registry) -> None:
    with pytest.raises(UnknownName, match="unknown model 'ssd_mobilnet': did you mean 'ssd_mobile"):
        registry.named("ssd_mobilnet")


def test_register_replace_and_remove(registry: Registry) -> None:
    first = registry.register(detector("Mine", "helmet"))
    assert registry.named("mine") is first
    assert registry.is_own(first)
    with pytest.raises(ProgrammingError, match="a model named 'Mine' exists already"):
        registry.register(detector("MINE", "hat"))
    second = registry.register(detector("MINE", "hat"), replace=True)
    assert registry.named("mine") is second
    assert registry.remove("mine") is second
    assert "mine" not in registry
    with pytest.raises(ProgrammingError, match="name must not be empty"):
        registry.register(detector(" ", "hat"))


def test_a_shipped_model_can_be_covered_but_not_dropped(registry: Registry) -> None:
    original = registry.named("ssd_mobilenet_v2")
    with pytest.raises(ProgrammingError, match="comes with mlsql"):
        registry.remove("ssd_mobilenet_v2")
    own = registry.register(dataclasses.replace(original, min_score=0.9), replace=True)
    assert registry.named("ssd_mobilenet_v2") is own
    assert registry.names().count("ssd_mobilenet_v2") == 1
    registry.remove("ssd_mobilenet_v2")
    assert registry.named("ssd_mobilenet_v2") is original


def test_sessions_do_not_share(registry: Registry) -> None:
    registry.register(detector("mine", "helmet"))
    assert "mine" not in Registry()


@pytest.mark.parametrize("task, labels, name", [
    (None, ["person"], "ssd_mobilenet_v2"), (None, ["bird", "boats"], "ssd_mobilenet_v2"),
    (None, ["vehicle"], "ssd_mobilenet_v2"), (None, ["goldfish"], "efficientnet_lite0"),
    (None, ["bird", "goldfish"], "efficientnet_lite0"), ("detect", [], "ssd_mobilenet_v2"),
    ("classify", [], "efficientnet_lite0"), ("classify", ["bird"], "efficientnet_lite0"),
    (None, [], "ssd_mobilenet_v2"),
])
def test_the_default_model(
    registry: Registry, task: str | None, labels: list[str], name: str
) -> None:
    assert default_model(registry, task, labels).name == name
    models: Models = registry
    assert models.default(task, labels).name == name


def test_a_users_model_answers_for_what_only_it_knows(registry: Registry) -> None:
    own = registry.register(detector("mine", "sprocket", "person"))
    assert default_model(registry, None, ["sprocket"]) is own
    assert default_model(registry, None, ["person"]).name == "ssd_mobilenet_v2"
    assert default_model(registry, None, ["sprocket", "person"]) is own


def test_a_detector_comes_before_a_classifier(registry: Registry) -> None:
    registry.register(classifier("which", "sprocket"))
    own = registry.register(detector("where", "sprocket"))
    assert default_model(registry, None, ["sprocket"]) is own
    assert default_model(registry, "classify", ["sprocket"]).name == "which"


def test_two_models_of_the_users_are_not_guessed_between(registry: Registry) -> None:
    registry.register(detector("a", "sprocket"))
    registry.register(detector("b", "sprocket"))
    with pytest.raises(ProgrammingError, match="'a' and 'b' know 'sprocket': say which"):
        default_model(registry, None, ["sprocket"])


def test_a_label_that_nobody_knows(registry: Registry) -> None:
    with pytest.raises(UnknownName) as raised:
        default_model(registry, None, ["brid"])
    shown = str(raised.value)
    assert "ssd_mobilenet_v2 (80 labels)" in shown
    assert "efficientnet_lite0 (1000 labels)" in shown
    assert "'bird'" in shown
    with pytest.raises(UnknownName, match="unknown label 'goldfish' for ssd_mobilenet_v2"):
        default_model(registry, "detect", ["goldfish"])


def test_labels_that_take_two_models(registry: Registry) -> None:
    with pytest.raises(ProgrammingError, match="no one model knows all of these labels: 'person'"):
        default_model(registry, None, ["person", "goldfish"])


@pytest.mark.parametrize("labels", [[""], ["person", "  "]])
def test_a_blank_label_is_an_error(registry: Registry, labels: list[str]) -> None:
    with pytest.raises(ProgrammingError, match="must not be empty"):
        default_model(registry, None, labels)


def test_a_task_without_a_model(registry: Registry) -> None:
    with pytest.raises(ProgrammingError, match="no model for 'predict' is registered"):
        default_model(registry, "predict", [])
