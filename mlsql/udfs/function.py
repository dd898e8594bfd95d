"""The model functions: each is an SQL expression over model outputs, one file each."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from sqlglot import exp

from mlsql.errors import ProgrammingError, unknown
from mlsql.udfs.spec import ModelSpec


class ModelOutput(exp.Expression, exp.Func):
    """The output of a model on an argument: the one primitive that a plan runs."""

    arg_types = {"this": True, "model": True}
    is_var_len_args = False

    @property
    def spec(self) -> ModelSpec:
        """The model."""
        spec: ModelSpec = self.args["model"]
        return spec


def output(spec: ModelSpec, argument: exp.Expr) -> ModelOutput:
    """The output of `spec` on `argument`."""
    return ModelOutput(this=argument.copy(), model=spec)


class Models(Protocol):
    """What an expansion may ask about models."""

    def named(self, name: str) -> ModelSpec:
        """The model of that name; an unknown one is an error with the nearest names."""

    def default(self, task: str | None, labels: Sequence[str]) -> ModelSpec:
        """The model that the rule chooses for these labels."""

    def embedders(self) -> Sequence[ModelSpec]:
        """The models for 'embed', those that come with mlsql first."""


@dataclass(frozen=True)
class Call:
    """One call of a model function, as written: arguments in order, options by lower-case name."""

    function: Function
    arguments: tuple[exp.Expr, ...]
    options: Mapping[str, exp.Expr] = field(default_factory=dict)
    type: str | None = None  # DuckDB's type of the looked-at argument, where it could be told
    types: tuple[str | None, ...] = ()  # of every argument, where the function is `typed`

    def argument(self, position: int) -> exp.Expr | None:
        """An optional argument, or None where it was not given."""
        return self.arguments[position] if position < len(self.arguments) else None


Expansion = Callable[[Call, Models], exp.Expr]


@dataclass(frozen=True)
class Function:
    """A model function: its name, arguments, options, and how it is expanded."""

    name: str
    arguments: tuple[str, ...]
    options: tuple[str, ...]
    required: int
    returns: str
    expand: Expansion
    meaning: str
    shadows: bool = False  # DuckDB has a function of this name for arguments that are no media
    typed: bool = False  # its expansion depends on the types of all arguments
    usage: str = ""  # how it is called, where that is not arguments and options in their order
    example: str = ""  # a statement over the demo's video, bikes.mp4
    details: str = ""  # the rest of what its docstring says

    @property
    def subject(self) -> int:
        """The position of the argument that the model looks at."""
        looked_at = ("media", "source", "argument")
        return next(i for i, name in enumerate(self.arguments) if name in looked_at)

    @property
    def signature(self) -> str:
        """How it is called, options in brackets."""
        if self.usage:
            return self.usage
        needed = ", ".join(self.arguments[: self.required])
        more = [*self.arguments[self.required:], *(f"{o} =>" for o in self.options)]
        return f"{self.name}({needed}{''.join(f' [, {m}]' for m in more)})"


def function(
    name: str, arguments: str, returns: str, *, options: str = "", shadows: bool = False,
    typed: bool = False, usage: str = "", example: str = "",
) -> Callable[[Expansion], Function]:
    """Make an expansion a model function; an argument in brackets may be left out.

    The first line of the expansion's docstring is what help and docs say of it, the rest what docs
    add. `usage` takes the place of the signature, and `example` is run by a test.
    """
    words = arguments.split()
    names = tuple(word.strip("[]") for word in words)
    required = sum(not word.startswith("[") for word in words)

    def build(expand: Expansion) -> Function:
        meaning, _, details = inspect.cleandoc(expand.__doc__ or "").partition("\n")
        return Function(name, names, tuple(options.split()), required, returns, expand, meaning,
                        shadows, typed, usage, example, details.strip())

    return build


@lru_cache(maxsize=1)
def functions() -> Mapping[str, Function]:
    """Every model function by its upper-case name, found in the folder functions/."""
    from mlsql.udfs import functions as folder

    found: dict[str, Function] = {}
    for module in pkgutil.iter_modules(folder.__path__):
        loaded = importlib.import_module(f"{folder.__name__}.{module.name}")
        for value in vars(loaded).values():
            if isinstance(value, Function):
                found[value.name] = value
    return found


def read_call(
    function: Function, given: Sequence[exp.Expr], type: str | None = None,
    types: Sequence[str | None] = (),
) -> Call:
    """The call with its arguments and options told apart and checked."""
    arguments: list[exp.Expr] = []
    options: dict[str, exp.Expr] = {}
    for item in given:
        if isinstance(item, (exp.Kwarg, exp.PropertyEQ)):
            options[_option(function, item)] = item.expression
        elif options:
            raise ProgrammingError(f"{function.signature}: arguments stand before options")
        else:
            arguments.append(item)
    if not function.required <= len(arguments) <= len(function.arguments):
        raise ProgrammingError(
            f"{function.name} takes {_count(function)} arguments, not {len(arguments)}: "
            f"{function.signature}")
    return Call(function, tuple(arguments), options, type, tuple(types))


def _option(function: Function, item: exp.Expr) -> str:
    name = item.this.name.lower()
    if name not in function.options:
        raise unknown("option", name, function.options, f"of {function.signature}")
    return str(name)


def _count(function: Function) -> str:
    most = len(function.arguments)
    return str(most) if most == function.required else f"{function.required} to {most}"
