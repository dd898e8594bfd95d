"""The settings: one table, values from the table, the environment and the user, in that order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mlsql.config import SETTINGS, Settings, known
from mlsql.errors import ProgrammingError, UnknownName


def test_every_default_is_a_value_that_could_be_set() -> None:
    settings = Settings()
    for setting, value in settings:
        settings.set(setting.name, value)
        assert settings[setting.name] == value
        assert isinstance(value, setting.type)


def test_every_setting_says_what_it_means() -> None:
    for name, setting in SETTINGS.items():
        assert name == setting.name == name.lower()
        assert len(setting.meaning) > 10


def test_environment_then_config_then_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSQL_BATCH_SIZE", "7")
    assert Settings()["batch_size"] == 7
    settings = Settings({"Batch_Size": 8})
    assert settings.integer("BATCH_SIZE") == 8
    settings.set("batch_size", 9)
    assert settings["batch_size"] == 9
    settings.reset("batch_size")
    assert settings["batch_size"] == 7


def test_an_empty_variable_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSQL_CACHE", "")
    assert Settings().flag("cache") is True


def test_a_bad_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSQL_WORKERS", "many")
    with pytest.raises(ProgrammingError, match=r"MLSQL_WORKERS: workers takes a whole number"):
        Settings()


def test_cache_dir_follows_xdg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MLSQL_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert Settings().text("cache_dir") == "/somewhere/mlsql"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert Settings().text("cache_dir") == str(Path.home() / ".cache" / "mlsql")


@pytest.mark.parametrize(("name", "given", "value"), [
    ("cache", "off", False), ("cache", "TRUE", True), ("cache", 0, False), ("cache", " no ", False),
    ("batch_size", "16", 16), ("batch_size", 16.0, 16),
    ("statement_timeout", "2.5", 2.5), ("statement_timeout", 3, 3.0),
    ("memory_budget", "512MB", 512_000_000), ("memory_budget", "1.5 GiB", 1_610_612_736),
    ("memory_budget", 2**53 + 1, 2**53 + 1), ("memory_budget", "1000", 1000),
    ("on_error", "SKIP", "skip"), ("device", "cuda:1", "cuda:1"),
    ("max_error_ratio", 1, 1.0), ("cache_limit", 0, 0),
])
def test_values_are_converted(name: str, given: Any, value: Any) -> None:
    settings = Settings({name: given})
    assert settings[name] == value
    assert type(settings[name]) is SETTINGS[name].type


@pytest.mark.parametrize(("name", "given"), [
    ("cache", "perhaps"), ("cache", 2), ("cache", None),
    ("batch_size", -1), ("batch_size", 1.5), ("batch_size", "16 frames"), ("batch_size", True),
    ("batch_size", float("nan")), ("batch_size", float("inf")),
    ("statement_timeout", "soon"), ("statement_timeout", float("inf")),
    ("memory_budget", 0), ("memory_budget", "12 parsecs"), ("memory_budget", "MB"),
    ("on_error", "ignore"), ("executor", "cluster"), ("device", ""), ("device", None),
    ("max_error_ratio", 1.01), ("max_error_ratio", -0.1),
])
def test_values_out_of_range_are_refused(name: str, given: Any) -> None:
    settings = Settings()
    before = settings[name]
    with pytest.raises(ProgrammingError, match=f"^{name} takes .*not "):
        settings.set(name, given)
    assert settings[name] == before


def test_choices_are_listed() -> None:
    with pytest.raises(ProgrammingError, match=r"'raise' or 'null' or 'skip', not 'ignore'"):
        Settings({"on_error": "ignore"})


@pytest.mark.parametrize("use", [known, lambda name: Settings()[name],
                                 lambda name: Settings({name: 1}),
                                 lambda name: Settings().reset(name)])
def test_unknown_settings_have_near_names(use: Any) -> None:
    with pytest.raises(UnknownName, match=r"'bach_size': did you mean 'batch_size'"):
        use("bach_size")


def test_typed_readers() -> None:
    settings = Settings({"cache": "on", "workers": 3, "statement_timeout": 1.5, "device": "cpu"})
    assert settings.flag("cache") is True
    assert settings.integer("workers") == 3
    assert settings.number("statement_timeout") == 1.5
    assert settings.text("device") == "cpu"
