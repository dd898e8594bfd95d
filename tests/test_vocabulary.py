"""Words for labels."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

import pytest

from mlsql.errors import ProgrammingError, UnknownName
from mlsql.udfs import vocabulary
from mlsql.udfs.labels_coco import COCO_LABELS
from mlsql.udfs.labels_imagenet import IMAGENET_LABELS
from mlsql.udfs.spec import DETECTIONS_TYPE, ModelSpec, classes_type


def spec(name: str, *labels: str) -> ModelSpec:
    task = "detect" if labels == COCO_LABELS else "classify"
    output = DETECTIONS_TYPE if task == "detect" else classes_type(len(labels))
    return ModelSpec(name, task, output, "nowhere:load", labels=labels)


COCO = spec("coco", *COCO_LABELS)
IMAGENET = spec("imagenet", *IMAGENET_LABELS)


@pytest.mark.parametrize("word, labels", [
    ("person", "person"), ("people", "person"), ("PEOPLE", "person"), ("human", "person"),
    ("persons", "person"), (" car ", "car"), ("cell_phone", "cell phone"), ("sofa", "couch"),
    ("mobile  phone", "cell phone"), ("television", "tv"), ("TVs", "tv"), ("buses", "bus"),
    ("aeroplane", "airplane"), ("motorbikes", "motorcycle"), ("knives", "knife"), ("mice", "mouse"),
    ("sheep", "sheep"), ("skis", "skis"), ("kite", "kite"), ("cat", "cat"),
    ("vehicle", "car motorcycle airplane bus train truck boat"),
    ("motor vehicles", "car motorcycle bus truck"),
    ("animal", "bird cat dog horse sheep cow elephant bear zebra giraffe"),
    ("cutlery", "fork knife spoon"),
])
def test_words_for_coco(word: str, labels: str) -> None:
    expected = (labels,) if labels in COCO_LABELS else tuple(labels.split())
    assert vocabulary.resolve(word, COCO) == expected


@pytest.mark.parametrize("word, count, some", [
    ("bird", 59, ["kite", "bald eagle", "king penguin"]), ("dogs", 118, ["Chihuahua"]),
    ("cat", 5, ["tabby"]), ("fish", 16, ["goldfish", "great white shark"]), ("snake", 17, []),
    ("insects", 27, ["bee"]), ("reptile", 36, ["triceratops"]), ("fruit", 10, ["banana"]),
    ("ball", 9, ["rugby ball"]), ("musical instrument", 26, ["oboe"]), ("crane", 2, ["crane bird"]),
    ("crane machine", 1, ["crane machine"]), ("orca", 1, ["killer whale"]), ("kite", 1, ["kite"]),
    ("school bus", 1, ["school bus"]), ("bus", 3, ["school bus"]), ("wolves", 3, ["timber wolf"]),
])
def test_words_for_imagenet(word: str, count: int, some: list[str]) -> None:
    covered = vocabulary.resolve(word, IMAGENET)
    assert len(covered) == count
    assert set(some) <= set(covered)
    assert list(covered) == [label for label in IMAGENET_LABELS if label in covered]


def test_every_label_means_itself() -> None:
    for model in (COCO, IMAGENET):
        assert len({label.lower() for label in model.labels}) == len(model.labels)
        for label in model.labels:
            assert label in vocabulary.resolve(label, model)
            assert label in vocabulary.resolve(label.upper().replace(" ", "_"), model)


def test_a_word_is_never_narrower_than_what_it_covers() -> None:
    """The tables' two sides fit: coverage grows along is-a chains."""
    chains = [("cat", "feline", "carnivore", "mammal", "animal"), ("terrier", "dog", "mammal"),
              ("songbird", "bird", "animal"), ("truck", "vehicle"), ("bus", "vehicle"),
              ("fruit", "food"), ("bread", "food"), ("chair", "furniture")]
    for chain in chains:
        for inner, outer in itertools.pairwise(chain):
            inside = set(vocabulary.resolve(inner, IMAGENET))
            assert inside <= set(vocabulary.resolve(outer, IMAGENET)), (inner, outer)


def test_the_words_of_a_model() -> None:
    words = vocabulary.words(COCO)
    assert words["vehicle"] == vocabulary.resolve("Vehicle", COCO)
    assert all(word == word.lower() and covered for word, covered in words.items())
    assert "birds" in words
    assert "birds" not in vocabulary.suggestions(COCO)
    assert vocabulary.knows("Birds", COCO)
    assert not vocabulary.knows("unicorn", COCO)
    assert not vocabulary.knows("person", IMAGENET)


@pytest.mark.parametrize("word", ["", "  ", "\t", "_"])
def test_a_blank_label_is_an_error(word: str) -> None:
    with pytest.raises(ProgrammingError, match="a label must not be empty"):
        vocabulary.resolve(word, COCO)


@pytest.mark.parametrize("word, near", [("brid", "'bird'"), ("vehicel", "'vehicle'"),
                                        ("Dinning Table", "'dining table'")])
def test_an_unknown_label_names_the_nearest(word: str, near: str) -> None:
    with pytest.raises(UnknownName) as raised:
        vocabulary.resolve(word, COCO)
    assert str(raised.value).startswith(f"unknown label {word!r} for coco (80 labels): did you")
    assert near in str(raised.value)


def test_a_users_model_has_its_labels_and_the_words_that_cover_them() -> None:
    own = spec("own", "robin", "crow", "Cat", "insect", "helicopter", "kite")
    assert vocabulary.resolve("helicopters", own) == ("helicopter",)
    assert vocabulary.resolve("animal", own) == ("robin", "Cat", "insect")
    assert vocabulary.resolve("bird", own) == ("robin",)
    assert vocabulary.resolve("CAT", own) == ("Cat",)
    assert vocabulary.resolve("kite", own) == ("kite",)
    with pytest.raises(UnknownName, match=r"for own \(6 labels\)$"):
        vocabulary.resolve("xylograph", own)


def test_labels_that_differ_in_case_only_are_found_together() -> None:
    assert vocabulary.resolve("a", spec("own", "A", "a")) == ("A", "a")


def test_the_labels_follow_the_published_classes(data: Path) -> None:
    import csv

    renamed = {134: "crane bird", 517: "crane machine", 639: "tank suit",
               264: "Cardigan Welsh corgi"}
    with (data / "images/imagenet/labels.csv").open() as file:
        for row in csv.DictReader(file):
            index = int(row["class_index"])
            assert IMAGENET_LABELS[index] == renamed.get(index, row["label"])


def test_words_cost_no_heavy_import() -> None:
    code = ("import sys, mlsql.udfs.vocabulary as v, mlsql.udfs.registry as r; r.shipped();"
            "print([m for m in ('torch', 'cv2', 'av', 'duckdb', 'pyarrow') if m in sys.modules])")
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                           cwd=Path(__file__).parent.parent)
    assert shown.stdout.strip() == "[]"
