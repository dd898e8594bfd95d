"""Lower precision: only where it is asked for, with answers and cache keys of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlsql
from mlsql.errors import NotSupportedError, ProgrammingError
from mlsql.exec.tuning import candidates, precision_of
from mlsql.udfs.models.ssd_mobilenet_v2 import SPEC
from tests.sessions import Asking

pytest.importorskip("openvino")


def test_a_variant_has_a_name_and_a_key_of_its_own() -> None:
    variants = [SPEC.variant(p) for p in ("fp32", "bf16", "int8")]
    assert variants[0] is SPEC and precision_of(SPEC) == "fp32"
    assert [v.name for v in variants[1:]] == ["ssd_mobilenet_v2/bf16", "ssd_mobilenet_v2/int8"]
    assert len({v.fingerprint for v in variants}) == 3
    assert precision_of(variants[2]) == "int8"
    assert variants[2].variant("bf16") is variants[2]


def test_8_bits_are_for_the_processor() -> None:
    with pytest.raises(NotSupportedError, match="bf16 or fp16"):
        candidates("cuda", "int8", 8)
    assert [r.name for r in candidates("cpu", "fp16", 8)] == ["torch"]
    assert all(r.name == "openvino" for r in candidates("cpu", "int8", 8))


def test_an_unknown_precision_is_refused() -> None:
    with mlsql.connect() as session, pytest.raises(ProgrammingError, match="'int8'"):
        session.execute("SET precision = 'int4'")


def test_a_callable_has_one_precision(tmp_path: Path) -> None:
    with Asking(cache=True, cache_dir=str(tmp_path)) as asking:
        assert asking.value("SELECT sq(3)") == 9
        asking.run("SET precision = 'int8'")
        assert asking.value("SELECT sq(3)") == 9 and asking.asked("sq") == []


def scores(session: Any, video: Path) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = session.execute(
        f"SELECT frame_id, SCORE(frame, 'car'), SCORE(frame, 'person') FROM read_video('{video}') "
        "WHERE frame_id IN (0, 60, 120) ORDER BY 1").fetchall()
    return rows


def test_each_precision_has_its_own_answers_in_the_cache(bikes: Path) -> None:
    with mlsql.connect() as session:
        exact = scores(session, bikes)
        session.execute("SET precision = 'int8'")
        coarse = scores(session, bikes)
        assert session.last_stats.calls == 3 and session.last_stats.cached == 0
        assert [m.model for m in session.last_stats.models] == ["ssd_mobilenet_v2/int8"]
        assert coarse != exact
        assert np.abs(np.array(coarse) - np.array(exact)).max() < 0.35
        assert scores(session, bikes) == coarse and session.last_stats.calls == 0
        session.execute("SET precision = 'fp32'")
        assert scores(session, bikes) == exact and session.last_stats.calls == 0


def test_half_precision_answers_nearly_the_same(bikes: Path) -> None:
    with mlsql.connect(config={"precision": "bf16"}) as session:
        row = session.execute(
            f"SELECT CLASSIFY_SCORES(frame) FROM read_video('{bikes}') WHERE frame_id = 120"
        ).fetchall()[0][0]
        session.execute("SET precision = 'fp32'")
        exact = session.execute(
            f"SELECT CLASSIFY_SCORES(frame) FROM read_video('{bikes}') WHERE frame_id = 120"
        ).fetchall()[0][0]
    worst = max(abs(row[label] - exact[label]) for label in exact)
    assert 0 < worst < 0.1
