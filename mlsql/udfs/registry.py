"""The models a session knows: those shipped, found by folder, and those the user registered."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from mlsql.errors import InternalError, ProgrammingError, unknown
from mlsql.udfs import models, vocabulary
from mlsql.udfs.spec import ModelSpec

# Where a function names no task, what counts comes before what only classifies.
_TASKS_WITH_LABELS = ("detect", "classify")


@lru_cache(maxsize=1)
def shipped() -> tuple[ModelSpec, ...]:
    """The SPEC of every module in mlsql/udfs/models, by name; modules with a _ are their parts."""
    found = []
    for module in pkgutil.iter_modules(models.__path__):
        if not module.name.startswith("_"):
            loaded = importlib.import_module(f"{models.__name__}.{module.name}")
            spec = getattr(loaded, "SPEC", None)
            if not isinstance(spec, ModelSpec):
                raise InternalError(f"the model module {module.name} has no SPEC")
            found.append(spec)
    return tuple(found)


class Registry:
    """The models of one session, by name whatever its case."""

    def __init__(self, stored: Callable[[], Mapping[str, ModelSpec]] = dict) -> None:
        self._own: dict[str, ModelSpec] = {}
        self._stored = stored  # the models of the database, by lower-case name

    def __iter__(self) -> Iterator[ModelSpec]:
        """Every model, the shipped ones first; one of the user's stands for a shipped namesake."""
        known = {spec.name.lower(): spec for spec in shipped()}
        return iter({**known, **self._stored(), **self._own}.values())

    def __contains__(self, name: str) -> bool:
        return name.lower() in {spec.name.lower() for spec in self}

    def names(self) -> tuple[str, ...]:
        """The name of every model, as it was written."""
        return tuple(spec.name for spec in self)

    def is_own(self, spec: ModelSpec) -> bool:
        """Whether the user registered that model."""
        return self.own(spec.name) is spec

    def is_of_session(self, name: str) -> bool:
        """Whether the model of that name is one that the session registered."""
        return name.lower() in self._own

    def own(self, name: str) -> ModelSpec | None:
        """The user's model of that name, if there is one: it may be called by its name."""
        return self._own.get(name.lower()) or self._stored().get(name.lower())

    def register(self, spec: ModelSpec, replace: bool = False) -> ModelSpec:
        """Make a model known; a name in use is an error unless it is to be replaced."""
        if not spec.name.strip():
            raise ProgrammingError("a model's name must not be empty")
        if spec.name in self and not replace:
            raise ProgrammingError(
                f"a model named {self.named(spec.name).name!r} exists already: to replace it, say"
                " CREATE OR REPLACE MODEL, or replace=True"
            )
        self._own[spec.name.lower()] = spec
        return spec

    def named(self, name: str) -> ModelSpec:
        """The model of that name; an unknown one is an error with the nearest names."""
        known = {spec.name.lower(): spec for spec in self}
        if name.strip().lower() not in known:
            raise unknown("model", name, known)
        return known[name.strip().lower()]

    def default(self, task: str | None, labels: Sequence[str]) -> ModelSpec:
        """The model that answers for these labels where none was named; see `default_model`."""
        return default_model(self, task, labels)

    def remove(self, name: str) -> ModelSpec:
        """Forget a model the user registered; a shipped one of that name is there again."""
        spec = self.named(name)
        if not self.is_of_session(spec.name):
            raise ProgrammingError(f"{spec.name!r} comes with mlsql and cannot be dropped")
        return self._own.pop(spec.name.lower())


def default_model(
    registry: Iterable[ModelSpec], task: str | None, labels: Sequence[str]
) -> ModelSpec:
    """The model for these labels where none was named.

    Detectors come before classifiers (`task` leaves only its own kind), and within a kind a shipped
    model before the user's: to register a model changes no query that was answered before. Of
    several models of the user's that know all the labels, none is guessed: that is an error, as is
    a label that nobody knows.
    """
    for label in labels:
        if not label.strip():
            raise ProgrammingError("a label must not be empty")
    tasks = _TASKS_WITH_LABELS if task is None else (task,)
    of_task = [spec for spec in registry if spec.task in tasks]
    if not of_task:
        raise ProgrammingError(f"no model for {' or '.join(map(repr, tasks))} is registered")
    own = set(map(id, shipped()))
    for wanted in tasks:
        fit = [s for s in of_task
               if s.task == wanted and all(vocabulary.knows(label, s) for label in labels)]
        first = [spec for spec in fit if id(spec) in own] or fit
        if len(first) == 1 or (first and id(first[0]) in own):
            return first[0]
        if first:
            raise _ambiguous(first, labels)
    raise _unanswerable(of_task, labels)


def _ambiguous(fit: Sequence[ModelSpec], labels: Sequence[str]) -> ProgrammingError:
    names = " and ".join(repr(spec.name) for spec in fit)
    what = f"know {', '.join(map(repr, labels))}" if labels else f"are for {fit[0].task!r}"
    return ProgrammingError(f"{names} {what}: say which, as in model => '{fit[0].name}'")


def _unanswerable(of_task: Sequence[ModelSpec], labels: Sequence[str]) -> ProgrammingError:
    """No one model knows all the labels: nobody knows one of them, or it takes several models."""
    knowing = {
        label: [s.name for s in of_task if vocabulary.knows(label, s)] for label in labels
    }
    for label, names in knowing.items():
        if not names:
            return _nobody_knows(of_task, label)
    parts = ", ".join(f"{label!r} is known to {' and '.join(n)}" for label, n in knowing.items())
    return ProgrammingError(f"no one model knows all of these labels: {parts}")


def _nobody_knows(of_task: Sequence[ModelSpec], label: str) -> ProgrammingError:
    where = " or ".join(f"{spec.name} ({len(spec.labels)} labels)" for spec in of_task)
    near: dict[str, None] = {}
    for spec in of_task:
        known = vocabulary.suggestions(spec)
        near.update(dict.fromkeys(difflib.get_close_matches(label.lower(), known, n=3)))
    return unknown("label", label, near, f"for {where}")
