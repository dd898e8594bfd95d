"""EMBED and SIMILARITY, and the warehouses' names AI_FILTER and AI_CLASSIFY."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlglot import exp

import mlsql
from mlsql.errors import ProgrammingError, UnknownName
from mlsql.udfs.functions.ai_filter import read
from tests.sessions import Asking, make_video, number_of


@pytest.fixture
def s() -> Iterator[Asking]:
    with Asking() as asking:
        yield asking


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_video(tmp_path_factory.mktemp("video"))


def add_pair(s: Asking, space: str = "greys") -> None:
    """A model for pictures and one for texts that put a grey and its number at one place."""
    def place(number: float) -> list[float]:
        return [float(np.cos(number / 5)), float(np.sin(number / 5))]

    s.add("seen", lambda picture: place(number_of(picture)), task="embed", output="FLOAT[2]",
          space=space)
    s.add("read", lambda text: place(float(text)), task="embed", input="VARCHAR",
          output="FLOAT[2]", space="greys")


def test_a_picture_and_a_text_of_one_space(s: Asking, video: Path) -> None:
    add_pair(s)
    sql = f"""SELECT frame_id FROM '{video}' ORDER BY SIMILARITY({{}}) DESC, frame_id LIMIT 1"""
    assert s.rows(sql.format("frame, '7'")) == [(7,)]
    assert (len(s.asked("seen")), s.asked("read")) == (10, ["7"])
    assert s.rows(sql.format("'3', frame")) == [(3,)]
    assert s.rows(sql.format("'3', frame, model => 'seen'")) == [(3,)]


def test_models_of_other_spaces_are_not_compared(s: Asking, video: Path) -> None:
    sql = f"SELECT SIMILARITY(frame, 'x') FROM '{video}'"
    with pytest.raises(ProgrammingError, match="a picture with a text takes two models of one "
                                               "space, and there are none"):
        s.rows(sql)
    add_pair(s, space="another")
    with pytest.raises(ProgrammingError, match="there are none: register them with space"):
        s.rows(sql)
    with pytest.raises(ProgrammingError, match="seen cannot look at 'x', which is VARCHAR"):
        s.rows(sql.replace("'x'", "'x', model => 'seen'"))


def test_vectors_texts_and_nulls(s: Asking) -> None:
    add_pair(s)
    assert s.rows("""SELECT SIMILARITY([1, 2], [2, 4]), SIMILARITY([1.0, 0], [0, 1]),
        SIMILARITY([1, 0]::FLOAT[2], [-1, 0]), SIMILARITY(NULL, [1]), SIMILARITY('1', NULL),
        round(SIMILARITY('1', '6'), 4), round(SIMILARITY('1', EMBED('6')), 4)""") == [
        (1.0, 0.0, -1.0, None, None, round(float(np.cos(1)), 4), round(float(np.cos(1)), 4))]


def test_which_model_embeds_what(s: Asking, video: Path) -> None:
    with pytest.raises(ProgrammingError, match=r"no model that embeds text .* IMAGE\(path\)"):
        s.rows("SELECT EMBED('a.jpg')")
    add_pair(s)
    assert s.rows("SELECT typeof(EMBED('0')), EMBED('0')") == [("FLOAT[2]", [1.0, 0.0])]
    s.add("read2", lambda text: [1.0], task="embed", input="VARCHAR", output="FLOAT[1]")
    with pytest.raises(ProgrammingError, match="'read' and 'read2' embed it: say which"):
        s.rows("SELECT EMBED('0')")
    assert s.value("SELECT EMBED('0', model => 'read2')") == [1.0]
    with pytest.raises(ProgrammingError, match="wants a model for 'embed'; eye is for 'detect'"):
        s.rows(f"SELECT EMBED(frame, model => 'eye') FROM '{video}'")


def test_real_pictures_that_are_alike(bikes: Path) -> None:
    with mlsql.connect() as con:
        rows = con.execute(f"""
            SELECT b.frame_id, SIMILARITY(a.frame, b.frame), len(EMBED(a.frame))
            FROM '{bikes}' a, '{bikes}' b
            WHERE a.frame_id = 10 AND b.frame_id IN (10, 12, 200) ORDER BY 1""").fetchall()
        assert [row[2] for row in rows] == [1280] * 3
        same, near, far = (row[1] for row in rows)
        assert same == pytest.approx(1) and near > 0.8 > 0.6 > far
        assert con.last_stats.calls == 3


def test_features_do_not_depend_on_the_batch(bikes: Path) -> None:
    from mlsql.udfs.models import efficientnet_lite0, efficientnet_lite0_features

    model = efficientnet_lite0_features.load(efficientnet_lite0_features.SPEC, "cpu")
    rng = np.random.default_rng(1)
    pictures = [model.prepare(rng.integers(0, 256, (90, 120, 3), np.uint8)) for _ in range(3)]
    together = model.infer(pictures)
    for one, picture in zip(together, pictures, strict=True):
        assert np.abs(one - model.infer([picture])[0]).max() <= 2e-4
    spec = efficientnet_lite0.SPEC
    assert efficientnet_lite0_features.SPEC.fingerprint != spec.fingerprint
    assert model.infer([]) == []


@pytest.mark.parametrize(("text", "labels", "joined"), [
    ("dog", ["dog"], exp.And),
    ("Is there a dog?", ["dog"], exp.And),
    ("Is there a traffic light in the picture?", ["traffic light"], exp.And),
    ("The picture shows a car or a bus.", ["car", "bus"], exp.Or),
    ("does the image contain a person and a bicycle", ["person", "bicycle"], exp.And),
    ("an image of a bird", ["bird"], exp.And),
    ("there are some boats on it", ["boats"], exp.And),
    ("a sandwich", ["sandwich"], exp.And),
])
def test_the_plain_questions_that_ai_filter_reads(
    text: str, labels: list[str], joined: type[exp.Connector]
) -> None:
    assert read(text) == (labels, joined)


def test_ai_filter_is_contains(s: Asking, video: Path) -> None:
    sql = "SELECT list(frame_id ORDER BY frame_id) FROM '{}' WHERE AI_FILTER({}, model => 'eye')"
    for predicate, expected in {
        "'Is there a dog?', frame": [0, 3, 6, 9],
        "'a cat and a dog', frame": [0, 6],
        "'cats or dogs', frame": [0, 2, 3, 4, 6, 8, 9],
        "'a dog', frame, min_score => 0.85": None,
    }.items():
        assert s.value(sql.format(video, predicate)) == expected


@pytest.mark.parametrize(("call", "said"), [
    ("AI_FILTER('a man on the moon', frame)", "AI_FILTER understands labels, such as 'a dog'"),
    ("AI_FILTER('bicycel', frame)", "did you mean 'bicycle'"),
    ("AI_FILTER(frame, 'a dog')", "the predicate is a text in quotes"),
    ("AI_FILTER('', frame)", "a label must not be empty"),
    ("AI_FILTER('dog', frame, model => 'eys')", "^unknown model 'eys'"),
    ("AI_CLASSIFY(frame, ['bycicle'])", "did you mean 'bicycle'"),
    ("AI_CLASSIFY(frame, path)", "labels is a list of labels written out"),
])
def test_what_the_warehouses_functions_do_not_know(
    s: Asking, video: Path, call: str, said: str
) -> None:
    with pytest.raises(ProgrammingError, match=said) as raised:
        s.rows(f"SELECT {call} FROM '{video}'")
    if "unknown" in said:
        assert isinstance(raised.value, UnknownName)


def test_ai_classify_is_classify(s: Asking, video: Path) -> None:
    found: Any = s.rows(f"""SELECT DISTINCT CLASSIFY(frame, ['cat', 'fish'], model => 'kind'),
        AI_CLASSIFY(frame, ['cat', 'fish'], model => 'kind') FROM '{video}' ORDER BY 1""")
    assert found == [("cat", "cat"), ("fish", "fish")]
