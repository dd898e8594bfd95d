"""A hash of what a callable does, so that edited code never meets answers of the old code."""

from __future__ import annotations

import functools
import hashlib
import inspect
import logging
import re
import secrets
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath
from typing import Any


def code_hash(target: Callable[..., Any]) -> str:
    """32 hex digits for a callable's bytecode, constants, defaults, closure and what it refers to.

    Functions and classes of the user are followed, modules of the user count with their files;
    those that are installed stand by name and version. Where the callable holds something whose
    content cannot be told (an open file, a loaded network), the hash is good for this process only:
    nothing stale is served, and nothing is found again in the next process.
    """
    total = hashlib.blake2b(digest_size=16)
    try:
        for part in _Walk().parts(target):
            total.update(part.encode("utf-8", "surrogatepass") + b"\0")
    except (_Opaque, RecursionError):
        total.update(secrets.token_bytes(16))
    return total.hexdigest()


class _Opaque(Exception):
    """A value whose content cannot be told."""


class _Walk:
    """Spells out values as text, each function, class and object once."""

    def __init__(self) -> None:
        # Number and value of each id: the value is kept alive, so that no id is used twice.
        self._seen: dict[int, tuple[int, Any]] = {}

    def parts(self, value: Any) -> Iterator[str]:
        if value is None or isinstance(value, (bool, int, float, complex, str, bytes, range)):
            yield f"{type(value).__name__} {value!r}"
        elif value is Ellipsis or value is NotImplemented:
            yield repr(value)
        elif id(value) in self._seen:
            yield f"again {self._seen[id(value)][0]}"
        else:
            self._seen[id(value)] = (len(self._seen), value)
            yield from self._compound(value)

    def _compound(self, value: Any) -> Iterator[str]:
        if isinstance(value, (tuple, list)):
            yield f"{type(value).__name__} {len(value)}"
            yield from self._all(value)
        elif isinstance(value, (set, frozenset)):
            yield f"set {sorted(' '.join(self.parts(item)) for item in value)}"
        elif isinstance(value, (dict, types.MappingProxyType)):
            yield f"dict {len(value)}"
            yield from self._all(item for pair in value.items() for item in pair)
        elif isinstance(value, types.CodeType):
            yield from self._code(value)
        elif isinstance(value, types.ModuleType):
            yield f"module {value.__name__} {_edition(value.__name__)}"
        elif inspect.isclass(value):
            yield from self._class(value)
        elif isinstance(value, types.FunctionType):
            yield from self._function(value)
        else:
            yield from self._object(value)

    def _all(self, values: Iterable[Any]) -> Iterator[str]:
        for value in values:
            yield from self.parts(value)

    def _class(self, value: type) -> Iterator[str]:
        if _is_installed(value.__module__):
            yield f"class {value.__module__}.{value.__qualname__} {_edition(value.__module__)}"
        else:
            yield f"class {value.__qualname__}"
            yield from self._all(value.__bases__)
            for key in sorted(vars(value).keys() - _INCIDENTAL):
                yield key
                yield from self.parts(vars(value)[key])

    def _function(self, function: types.FunctionType) -> Iterator[str]:
        if _is_installed(function.__module__):
            name = f"{function.__module__}.{function.__qualname__}"
            yield f"function {name} {_edition(function.__module__)}"
            return
        yield "function"
        yield from self._code(function.__code__)
        yield from self._all((function.__defaults__, function.__kwdefaults__))
        for cell in function.__closure__ or ():
            try:
                content = cell.cell_contents
            except ValueError:  # a name that was never bound
                yield "empty cell"
            else:
                yield from self.parts(content)
        for name in sorted(_global_names(function.__code__)):
            if name in function.__globals__:
                yield f"global {name}"
                yield from self.parts(function.__globals__[name])

    def _code(self, code: types.CodeType) -> Iterator[str]:
        yield f"code {code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars}"
        yield from self._all(code.co_consts)

    def _object(self, value: Any) -> Iterator[str]:
        kind = type(value)
        yield f"{kind.__module__}.{kind.__qualname__}"
        for telling, tell in _TELLING:
            if isinstance(value, telling):
                yield from self._all(tell(value))
                return
        if hasattr(value, "__wrapped__"):  # what functools.wraps and lru_cache leave
            yield from self.parts(value.__wrapped__)
        elif kind.__module__ == "numpy" and not getattr(getattr(value, "dtype", 0), "hasobject", 1):
            yield f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
        elif not _is_installed(kind.__module__) and hasattr(value, "__dict__"):
            yield from self._all((kind, vars(value)))
        else:
            raise _Opaque(repr(kind))


# Types of the standard library whose content is told by a few attributes.
_TELLING: tuple[tuple[Any, Callable[[Any], tuple[Any, ...]]], ...] = (
    (functools.partial, lambda v: (v.func, v.args, v.keywords)),
    (types.MethodType, lambda v: (v.__func__, v.__self__)),
    ((staticmethod, classmethod), lambda v: (v.__func__,)),
    (property, lambda v: (v.fget, v.fset, v.fdel)),
    (functools.cached_property, lambda v: (v.func,)),
    ((types.MemberDescriptorType, types.GetSetDescriptorType), lambda v: (v.__name__,)),
    ((types.WrapperDescriptorType, types.MethodDescriptorType), lambda v: (v.__qualname__,)),
    (types.BuiltinFunctionType, lambda v: (v.__module__, v.__qualname__)),
    (re.Pattern, lambda v: (v.pattern, v.flags)),
    (PurePath, lambda v: (str(v),)),
    (logging.Logger, lambda v: (v.name,)),
)

# What a class has beside its code: where it stands, and what Python makes by itself.
_INCIDENTAL = frozenset({
    "__module__", "__dict__", "__weakref__", "__doc__", "__annotations__", "__firstlineno__",
    "__static_attributes__", "__annotate__", "__annotations_cache__", "__abstractmethods__",
    "_abc_impl", "__dataclass_fields__", "__dataclass_params__",
})


def _global_names(code: types.CodeType) -> set[str]:
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _global_names(constant)
    return names


@functools.lru_cache(maxsize=1024)
def _is_installed(module: str | None) -> bool:
    """Whether a module came with Python or from a package, rather than from the user's hand."""
    if module in (None, "__main__"):
        return False
    file = getattr(sys.modules.get(str(module)), "__file__", None)
    if file is None:
        return str(module).partition(".")[0] in sys.stdlib_module_names
    if {"site-packages", "dist-packages"} & set(PurePath(file).parts):
        return True
    return str(module).partition(".")[0] in sys.stdlib_module_names


def _edition(module: str | None) -> str:
    """An installed module's version, or the hash of the file of the user's own."""
    found = sys.modules.get(str(module))
    if _is_installed(module):
        root = sys.modules.get(str(module).partition(".")[0])
        return str(getattr(root, "__version__", ""))
    file = getattr(found, "__file__", None)
    if module == "__main__" or file is None:
        return ""
    try:
        return hashlib.sha256(Path(file).read_bytes()).hexdigest()
    except OSError:
        return ""
