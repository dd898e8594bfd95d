"""Words for labels: a label means itself and what it covers, in the singular and the plural.

Two tables, one for COCO's classes and one for ImageNet's, say what each word covers. They serve
other models too: of the model's own labels, a word covers those whose meaning is part of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from mlsql.errors import ProgrammingError, unknown
from mlsql.udfs.labels_coco import COCO_LABELS
from mlsql.udfs.labels_imagenet import IMAGENET_LABELS
from mlsql.udfs.spec import ModelSpec

# What a word means: a set of COCO classes (by name) and ImageNet classes (by index).
Meaning = frozenset["str | int"]


def resolve(word: str, spec: ModelSpec) -> tuple[str, ...]:
    """The labels of the model that a word covers, in the model's order.

    An empty word is an error; so is one that covers none of the labels, with the nearest that do.
    """
    given = _normal(word)
    if not given:
        raise ProgrammingError("a label must not be empty")
    known = words(spec)
    if given not in known:
        where = f"for {spec.name} ({len(spec.labels)} labels)"
        raise unknown("label", word.strip(), suggestions(spec), where)
    return known[given]


def knows(word: str, spec: ModelSpec) -> bool:
    """Whether a word covers any label of the model."""
    return _normal(word) in words(spec)


def words(spec: ModelSpec) -> Mapping[str, tuple[str, ...]]:
    """Every word the model understands, in lower case, and the labels it covers."""
    return _vocabulary(spec.labels).all


def suggestions(spec: ModelSpec) -> Mapping[str, tuple[str, ...]]:
    """The same without the plurals: what to offer for completion or in place of a typo."""
    return _vocabulary(spec.labels).singular


@dataclass(frozen=True)
class _Vocabulary:
    """The words for one list of labels; `singular` are the ones worth suggesting."""

    singular: Mapping[str, tuple[str, ...]]
    all: Mapping[str, tuple[str, ...]]


@lru_cache(maxsize=64)
def _vocabulary(labels: tuple[str, ...]) -> _Vocabulary:
    place = {label: index for index, label in enumerate(labels)}
    found: dict[str, set[str]] = {}
    for label in labels:
        found.setdefault(_normal(label), set()).add(label)
    for word, covered in _covered(labels).items():
        found.setdefault(word, set()).update(covered)
    singular = {w: tuple(sorted(chosen, key=place.__getitem__)) for w, chosen in found.items()}
    known = dict(singular)
    for word, chosen in singular.items():
        for plural in _plurals(word):
            known.setdefault(plural, chosen)
    return _Vocabulary(MappingProxyType(singular), MappingProxyType(known))


def _covered(labels: tuple[str, ...]) -> dict[str, set[str]]:
    """What the tables' words cover of these labels."""
    by_class: dict[str | int, list[str]] = {}
    groups: dict[str, Meaning] = {}
    for label, meaning in _meanings(labels):
        if len(meaning) == 1:
            by_class.setdefault(next(iter(meaning)), []).append(label)
        else:
            groups[label] = meaning
    found: dict[str, set[str]] = {}
    for word, meaning in _table().items():
        covered = {label for part in meaning for label in by_class.get(part, ())}
        covered.update(label for label, inner in groups.items() if inner <= meaning)
        if covered:
            found[word] = covered
    return found


def _meanings(labels: tuple[str, ...]) -> Iterator[tuple[str, Meaning]]:
    """Each label's meaning, for those that have one in the tables.

    A name that both lists have ('kite', a bird or a toy) has ImageNet's sense only among names
    that are all ImageNet's.
    """
    imagenet = {_normal(label): index for index, label in enumerate(IMAGENET_LABELS)}
    coco = set(COCO_LABELS)
    all_imagenet = all(_normal(label) in imagenet for label in labels)
    for label in labels:
        word = _normal(label)
        if word in imagenet and (all_imagenet or word not in coco):
            yield label, frozenset((imagenet[word],))
        elif word in coco:
            yield label, frozenset((word,))
        elif word in _table():
            yield label, _table()[word]


@lru_cache(maxsize=1)
def _table() -> Mapping[str, Meaning]:
    """Every word of both tables and what it means."""
    folder = Path(__file__).with_name("data")
    table: dict[str, Meaning] = {}
    for name in ("words_coco.txt", "words_imagenet.txt"):
        for line in (folder / name).read_text("utf-8").splitlines():
            if line and not line.startswith("#"):
                left, _, right = line.partition(" = ")
                meaning = frozenset(_classes(right))
                for word in map(_normal, left.split(" | ")):
                    table[word] = table.get(word, frozenset()) | meaning
    return table


def _classes(text: str) -> Iterator[str | int]:
    """COCO names between commas, or ImageNet indices and ranges ('7-24 80') between blanks."""
    if not text[0].isdigit():
        yield from text.split(", ")
        return
    for part in text.split():
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _normal(word: str) -> str:
    return re.sub(r"[\s_]+", " ", word).strip().lower()


_IRREGULAR = {
    "person": "people", "man": "men", "woman": "women", "child": "children", "mouse": "mice",
    "goose": "geese", "foot": "feet", "tooth": "teeth", "wolf": "wolves", "calf": "calves",
    "knife": "knives", "leaf": "leaves", "loaf": "loaves", "shelf": "shelves", "scarf": "scarves",
    "ox": "oxen", "fungus": "fungi", "cactus": "cacti",
}
_SAME = frozenset({"sheep", "fish", "deer", "bison", "aircraft", "spacecraft", "watercraft"})


def _plurals(word: str) -> Iterable[str]:
    """The plurals of a word or, of several words, of the last."""
    start, blank, last = word.rpartition(" ")
    return tuple(start + blank + plural for plural in _plurals_of_one(last))


def _plurals_of_one(word: str) -> tuple[str, ...]:
    if word in _SAME or not word[-1:].isalpha():
        return ()
    if word in _IRREGULAR:
        return (_IRREGULAR[word], word + "s")
    if word[-1] == "y" and word[-2:-1] not in tuple("aeiou"):
        return (word[:-1] + "ies",)
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return (word + "es",)
    if word.endswith("o"):
        return (word + "s", word + "es")
    return (word + "s",)
