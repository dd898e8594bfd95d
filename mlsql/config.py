"""The settings: one table that feeds code, help and docs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from mlsql.errors import ProgrammingError, unknown

Value = bool | int | float | str | None


@dataclass(frozen=True)
class Setting:
    """One setting: its type, default and meaning; `choices` where the words are fixed.

    A number of bytes may be written with a unit, as in '512MB' or '2 GiB'.
    """

    name: str
    type: type
    default: Value
    meaning: str
    choices: tuple[str, ...] = ()
    check: Callable[[Value], bool] | None = None
    in_bytes: bool = False

    @property
    def variable(self) -> str:
        """The environment variable that gives its value at the start of a session."""
        return f"MLSQL_{self.name.upper()}"


def _default_cache() -> str:
    root = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return str(Path(root) / "mlsql")


def _positive(value: Value) -> bool:
    return isinstance(value, (int, float)) and value > 0


def _not_negative(value: Value) -> bool:
    return isinstance(value, (int, float)) and value >= 0


def _inside_0_and_1(value: Value) -> bool:
    return isinstance(value, (int, float)) and 0 < value < 1


def _between_0_and_1(value: Value) -> bool:
    return isinstance(value, (int, float)) and 0 <= value <= 1


def _at_least_minus_1(value: Value) -> bool:
    return isinstance(value, (int, float)) and value >= -1


def _executors() -> tuple[str, ...]:
    """The executors there are, by the names of their files."""
    files = (Path(__file__).parent / "exec" / "executors").glob("*.py")
    return tuple(sorted(file.stem for file in files if not file.stem.startswith("_")))


SETTINGS: Mapping[str, Setting] = {
    s.name: s
    for s in (
        Setting("executor", str, "auto", "where models run: in this process, in the workers of a "
                "Ray cluster, or (auto) there where one was joined or several GPUs are",
                _executors()),
        Setting("device", str, "auto", "torch device of the models: auto, cpu, cuda, cuda:1, mps"),
        Setting("workers", int, 0, "decoding threads in this process, most workers on Ray; "
                "0 chooses by the machine's cores and accelerators",
                check=_not_negative),
        Setting("min_workers", int, 1, "workers on Ray that are kept, once started, whatever "
                "there is to do", check=_not_negative),
        Setting("ray_address", str, "local", "address of a Ray cluster, as in "
                "'ray-head:6379'; 'local' is the one that this process has joined or RAY_ADDRESS "
                "names, else one of this machine's own"),
        Setting("gpus_per_worker", float, -1.0, "GPUs that a worker on Ray takes, .5 for two "
                "workers a GPU; -1 is one where there are any",
                check=_at_least_minus_1),
        Setting("precision", str, "fp32", "what networks are computed in; each precision but fp32 "
                "has answers of its own, also in the cache; 'auto' computes in fp32 where a cheap "
                "guess is not sure, 99.9 % of the rows as in fp32",
                ("fp32", "bf16", "fp16", "int8", "auto")),
        Setting("batch_size", int, 0, "inputs a model call; 0 takes the model's own, or what was "
                "measured to be best",
                check=_not_negative),
        Setting("memory_budget", int, 256_000_000, "bytes of decoded pictures in flight",
                check=_positive, in_bytes=True),
        Setting("cache", bool, True, "keep model outputs on disk and use them again"),
        Setting("cache_dir", str, None, "folder of the cache; its default is ~/.cache/mlsql"),
        Setting("cache_limit", int, 10_000_000_000,
                "bytes that the cache may take on disk; 0 is no limit",
                check=_not_negative, in_bytes=True),
        Setting("on_error", str, "raise",
                "an input that cannot be used: end the statement, be NULL, or lose its row",
                ("raise", "null", "skip")),
        Setting("max_error_ratio", float, 1.0,
                "share of unusable inputs above which a statement ends all the same",
                check=_between_0_and_1),
        Setting("max_model_calls", int, 0, "most model calls a statement may make; 0 is no limit; "
                "rows that are certain by then are given, with a warning, and without any it is "
                "an error", check=_not_negative),
        Setting("statement_timeout", float, 0.0, "seconds a statement may take; 0 is no limit; "
                "rows that are certain by then are given as under max_model_calls",
                check=_not_negative),
        Setting("max_pixels", int, 178_956_970, "most pixels a picture may have",
                check=_positive),
        Setting("error_target", float, 0.0, "half-width that AVG, SUM and COUNT over a model may "
                "have, as ERROR WITHIN; 0 is exact", check=_not_negative),
        Setting("recall_target", float, 0.0, "share of the rows that a model selects which must "
                "be found, as RECALL TARGET; 0 is exact", check=_between_0_and_1),
        Setting("precision_target", float, 0.0, "share of the rows found that the model must "
                "select, as PRECISION TARGET; 0 is exact", check=_between_0_and_1),
        Setting("confidence", float, 0.95, "how sure an accuracy target is to be met, as "
                "AT CONFIDENCE", check=_inside_0_and_1),
        Setting("oracle_limit", int, 0, "most model calls a statement with an accuracy target "
                "may make, as ORACLE LIMIT; 0 is no limit", check=_not_negative),
        Setting("seed", int, 0, "of the random draws of approximate answers",
                check=_not_negative),
        Setting("count_cap", int, 25, "most objects a picture is taken to hold, for the interval "
                "of their number; checked on every answer seen", check=_positive),
        Setting("limit_takes", str, "first", "which rows LIMIT without ORDER BY takes of those "
                "that a model selects: the first, or the likeliest, which takes fewer calls",
                ("first", "likeliest")),
        Setting("on_uncertified", str, "exact", "an accuracy target that cannot be certified: "
                "run exactly, with a warning, or refuse", ("exact", "refuse")),
        Setting("progress", bool, False, "draw a progress bar on standard error"),
    )
}


class Settings:
    """The values of one session: the table's defaults, then the environment, then what is set."""

    def __init__(self, given: Mapping[str, Value] | None = None) -> None:
        self._initial: dict[str, Value] = {s.name: _initial(s) for s in SETTINGS.values()}
        self._values = dict(self._initial)
        for name, value in (given or {}).items():
            self.set(name, value)

    def __getitem__(self, name: str) -> Value:
        return self._values[known(name).name]

    def __iter__(self) -> Iterator[tuple[Setting, Value]]:
        for setting in SETTINGS.values():
            yield setting, self._values[setting.name]

    def set(self, name: str, value: Value) -> None:
        """Give a setting a value; a word or number out of its range is an error."""
        setting = known(name)
        self._values[setting.name] = _converted(setting, value)

    def reset(self, name: str) -> None:
        """Give a setting the value that a session starts with: the environment's or default."""
        setting = known(name)
        self._values[setting.name] = self._initial[setting.name]

    def flag(self, name: str) -> bool:
        """The value of a boolean setting."""
        return bool(self[name])

    def integer(self, name: str) -> int:
        """The value of an integer setting."""
        return int(self[name] or 0)

    def number(self, name: str) -> float:
        """The value of a numeric setting."""
        return float(self[name] or 0.0)

    def text(self, name: str) -> str:
        """The value of a text setting."""
        return str(self[name])


def known(name: str) -> Setting:
    """The setting of that name, whatever its case; an unknown one is an error."""
    setting = SETTINGS.get(name.lower())
    if setting is None:
        raise unknown("setting", name, SETTINGS)
    return setting


def _initial(setting: Setting) -> Value:
    variable = setting.variable
    text = os.environ.get(variable)
    if text:
        try:
            return _converted(setting, text)
        except ProgrammingError as error:
            raise ProgrammingError(f"environment variable {variable}: {error}") from None
    return _default_cache() if setting.name == "cache_dir" else setting.default


_BOOLEANS = {"true": True, "on": True, "1": True, "yes": True,
             "false": False, "off": False, "0": False, "no": False}
_UNITS = {unit: base**power
          for power, letter in enumerate("kmgt", 1)
          for unit, base in ((letter, 1000), (f"{letter}b", 1000), (f"{letter}ib", 1024))} | {
              "": 1, "b": 1}


def _converted(setting: Setting, value: Value) -> Value:
    converted = _typed(setting, value.strip() if isinstance(value, str) else value)
    if setting.choices and isinstance(converted, str):
        converted = converted.lower()
    bad = converted is None or (setting.choices and converted not in setting.choices) or (
        setting.check is not None and not setting.check(converted))
    if bad:
        raise ProgrammingError(f"{setting.name} takes {_words(setting)}, not {value!r}")
    return converted


def _typed(setting: Setting, value: Value) -> Value:
    """The value in the setting's type, or None where it is of another kind."""
    if setting.type is bool:
        return value if isinstance(value, bool) else _BOOLEANS.get(str(value).lower())
    if setting.type is str:
        return str(value) if isinstance(value, (str, os.PathLike)) and str(value) else None
    if isinstance(value, bool):
        return None
    if setting.in_bytes and isinstance(value, str):
        return _byte_count(value)
    return _number(setting.type, value)


def _byte_count(text: str) -> Value:
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ ")
    factor = _UNITS.get(text[len(digits):].strip().lower())
    number = _number(float, digits)
    return int(number * factor) if isinstance(number, float) and factor else None


def _number(kind: type, value: Value) -> Value:
    try:
        if kind is int and isinstance(value, (int, str)):
            return int(value)
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    if not math.isfinite(number):
        return None
    return number if kind is float else int(number) if number.is_integer() else None


def _words(setting: Setting) -> str:
    if setting.choices:
        return " or ".join(repr(c) for c in setting.choices)
    kind = {bool: "true or false", int: "a whole number", float: "a number", str: "text"}
    return f"{kind[setting.type]} ({setting.meaning})"
