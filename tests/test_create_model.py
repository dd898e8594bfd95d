"""CREATE MODEL, DROP MODEL, SHOW MODELS and DESCRIBE MODEL: models that a database keeps."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlsql
from mlsql.errors import OperationalError, ProgrammingError, UnknownName
from tests.media_samples import encode_picture
from tests.model_files import SIDE, detector, exported, means, onnx_means, state_dict, torchscript
from tests.sessions import make_video

OPTIONS = "(task => 'classify', labels => ['red', 'green', 'blue'], size => 8)"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model in each format, a video, and a picture in three strong colours."""
    import torch

    folder = tmp_path_factory.mktemp("files")
    torchscript(means(), folder / "means.pt")
    torchscript(detector(), folder / "boxes.pt")
    torchscript(torch.nn.Flatten(0).eval(), folder / "flat.pt", torch.rand(1, 3, SIDE, SIDE))
    exported(means(), folder / "means.pt2")
    exported(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.AdaptiveAvgPool2d(1),
                                 torch.nn.Flatten()).eval(),
             folder / "one.pt2", batch=1, dynamic=False)
    layer = torch.nn.Linear(3, 1)
    with torch.no_grad():
        layer.weight[:] = torch.tensor([[1.0, 10.0, 100.0]])
        layer.bias[:] = 0.5
    state_dict(layer, folder / "linear.pt")
    torch.save(layer, folder / "pickled.pt")
    (folder / "words.txt").write_text("red\n green \n\nblue\n")
    for name, colour in (("red", (200, 0, 0)), ("green", (0, 200, 0)), ("blue", (0, 0, 200))):
        picture = np.zeros((20, 30, 3), np.uint8)
        picture[...] = colour
        (folder / f"{name}.png").write_bytes(encode_picture(picture, "PNG"))
    make_video(folder)
    return folder


@pytest.fixture
def con(files: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[mlsql.Session]:
    monkeypatch.chdir(files)
    with mlsql.connect(config={"cache": False}) as session:
        yield session


def value(con: mlsql.Session, sql: str, parameters: Any = None) -> Any:
    ((found,),) = con.execute(sql, parameters).fetchall()
    return found


def seen(con: mlsql.Session, model: str) -> list[str]:
    rows = con.execute(f"SELECT CLASSIFY(image, model => '{model}') FROM '*.png' ORDER BY path")
    return [row[0] for row in rows.fetchall()]


@pytest.mark.parametrize("file", ["means.pt", "means.pt2", "means.onnx"])
def test_a_classifier_in_each_format(con: mlsql.Session, files: Path, file: str) -> None:
    if file.endswith(".onnx"):
        pytest.importorskip("onnxruntime")
        onnx_means(files / file)
    con.execute(f"CREATE MODEL colours FROM '{file}' WITH {OPTIONS}")
    assert seen(con, "colours") == ["blue", "green", "red"]
    assert value(con, "SELECT colours(image).label FROM 'red.png'") == "red"
    assert value(con, "SELECT CONTAINS(image, 'reds', model => 'colours') FROM 'red.png'")
    assert value(con, "SELECT sum(s) FROM (SELECT unnest(colours(image).scores) AS s "
                      "FROM 'red.png')") == pytest.approx(1)
    with pytest.raises(UnknownName, match="did you mean 'green'"):
        con.execute("SELECT SCORE(image, 'grean', model => 'colours') FROM 'red.png'")


def test_a_detector(con: mlsql.Session) -> None:
    con.execute("CREATE MODEL boxes FROM 'boxes.pt' WITH (task => 'detect', size => 8, "
                "labels => ['crane', 'digger'], min_score => 0.2)")
    found = value(con, "SELECT DETECT(image, model => 'boxes') FROM 'red.png'")
    assert found == [{"label": "digger", "score": pytest.approx(200 / 255 / 3, abs=1e-3),
                      "x1": 7.5, "y1": 5.0, "x2": 22.5, "y2": 15.0}]
    assert value(con, "SELECT COUNT_OBJECTS(image, 'digger') FROM 'red.png'") == 1
    assert value(con, "SELECT COUNT_OBJECTS(image, 'digger', min_score => 0.5) FROM 'red.png'") == 0


def test_embeddings_and_values(con: mlsql.Session) -> None:
    con.execute("CREATE MODEL vector FROM 'one.pt2' WITH (task => 'embed', size => 8)")
    assert value(con, "SELECT typeof(EMBED(image, model => 'vector')) FROM 'red.png'") == "FLOAT[4]"
    # The program was exported for one picture a call; the batch is cut up for it.
    frames = con.execute("SELECT EMBED(frame, model => 'vector') FROM 'v.mp4'").fetchall()
    assert len(frames) == 10
    con.execute("""CREATE MODEL price FROM 'linear.pt' WITH (task => 'predict', input => 'FLOAT[3]',
        output => 'DOUBLE', architecture => 'torch.nn:Linear',
        arguments => {'in_features': 3, 'out_features': 1})""")
    assert con.execute("SELECT x, price([x, 1, 0]) FROM range(3) t(x) ORDER BY x").fetchall() == [
        (0, 10.5), (1, 11.5), (2, 12.5)]


def test_labels_from_a_file_and_by_name(con: mlsql.Session) -> None:
    con.execute("CREATE MODEL c FROM 'means.pt' WITH (task => 'classify', labels => 'words.txt', "
                "size => [8, 8])")
    assert seen(con, "c") == ["blue", "green", "red"]
    with pytest.raises(ProgrammingError, match="labels has 1000 words, and the file answers with "
                                               "3 scores"):
        con.execute("CREATE MODEL d FROM 'means.pt' WITH (task => 'classify', size => 8, "
                    "labels => 'imagenet')")


@pytest.mark.parametrize(("statement", "said"), [
    ("FROM 'no.pt' WITH (task => 'classify')", "CREATE MODEL m: there is no file no.pt"),
    ("FROM 5 WITH (task => 'classify')", "a file's name is wanted, not 5"),
    ("FROM 'means.pt'", r"WITH \(task => …\) must say what it is for: 'detect', 'classify'"),
    ("FROM 'means.pt' WITH (task => 'clasify')", "task is 'detect' or .*, not 'clasify'"),
    ("FROM 'means.pt' WITH (tsak => 'classify')", "unknown option 'tsak' .*did you mean 'task'"),
    ("FROM 'means.pt' WITH (task => 'classify', labels => ['a', 'b', 'c'])",
     "size => … must say the pixels of its input"),
    ("FROM 'means.pt' WITH (task => 'classify', labels => ['a', 'b'], size => 8)",
     "labels has 2 words, and the file answers with 3 scores"),
    ("FROM 'means.pt' WITH (task => 'classify', size => 8)", "labels=.* must list"),
    ("FROM 'means.pt' WITH (task => 'classify', labels => ['a', 'a', 'b'], size => 8)",
     "the label 'a' is there twice"),
    ("FROM 'means.pt' WITH (task => 'detect', labels => ['a'], size => 8)",
     "its outputs are no detections"),
    ("FROM 'boxes.pt' WITH (task => 'classify', labels => ['a'], size => 8)",
     "several outputs: say which with head"),
    ("FROM 'flat.pt' WITH (task => 'embed', size => 8)", "answered 2 inputs with an array of"),
    ("FROM 'means.pt' WITH (task => 'predict', size => 8)", "output='…' must say the type"),
    ("FROM 'means.pt' WITH (task => 'predict', size => 8, output => 'BOOLEAN')",
     "its answer .* is no BOOLEAN"),
    ("FROM 'means.pt' WITH (task => 'predict', size => 8, output => 'NUMBR')", "no type of DuckDB"),
    ("FROM 'means.pt' WITH (task => 'predict', input => 'VARCHAR', output => 'DOUBLE')",
     "a file takes pictures or numbers, not VARCHAR"),
    ("FROM 'means.pt' WITH (task => 'classify', labels => ['a'], size => 0)",
     r"size is a number of pixels, or \[width, height\], not 0"),
    ("FROM 'means.pt' WITH (task => 'classify', labels => ['a', 'b', 'c'], size => 8, std => 'x')",
     "std is a number, or three, not 'x'"),
    ("FROM 'pickled.pt' WITH (task => 'classify', labels => ['a'], size => 8)",
     "pickled code, which is not run"),
    ("FROM 'linear.pt' WITH (task => 'predict', input => 'FLOAT[3]', output => 'DOUBLE')",
     "say whose they are"),
    ("FROM 'linear.pt' WITH (task => 'predict', input => 'FLOAT[4]', output => 'DOUBLE', "
     "architecture => 'torch.nn:Linear', arguments => {'in_features': 3, 'out_features': 1})",
     "CREATE MODEL m: RuntimeError: .*shapes"),
    ("FROM 'red.png' WITH (task => 'classify', labels => ['a'], size => 8)", "in no format"),
    ("FROM 'means.pt' WITH (classify)", "an option is written name => value"),
    ("FROM 'means.pt' (task => 'classify')", "the statement is CREATE"),
    ("AS 'means.pt'", "the statement is CREATE"),
])
def test_what_is_wrong_is_said_now(con: mlsql.Session, statement: str, said: str) -> None:
    with pytest.raises(ProgrammingError, match=said):
        con.execute(f"CREATE MODEL m {statement}")
    assert "m" not in con.models


def test_names(con: mlsql.Session) -> None:
    create = f"MODEL colours FROM 'means.pt' WITH {OPTIONS}"
    con.execute(f"CREATE {create}")
    with pytest.raises(ProgrammingError, match=r"exists already: .* CREATE OR REPLACE MODEL"):
        con.execute(f"CREATE {create.replace('colours', 'Colours')}")
    con.execute(f"create {create.replace('MODEL', 'model IF NOT EXISTS')}")
    con.execute(f"CREATE OR REPLACE {create.replace('means.pt', 'means.pt2')}")
    assert value(con, "SELECT origin FROM models('colours')").endswith("means.pt2")
    with pytest.raises(ProgrammingError, match="exclude each other"):
        con.execute("CREATE OR REPLACE MODEL IF NOT EXISTS m FROM 'means.pt'")
    for taken in ("contains", "lower", "models"):
        with pytest.raises(ProgrammingError, match="is a function already"):
            con.execute(f"CREATE MODEL {taken} FROM 'means.pt' WITH {OPTIONS}")
    con.execute(f'CREATE MODEL "odd name" FROM \'means.pt\' WITH {OPTIONS}')
    assert seen(con, "odd name") == ["blue", "green", "red"]
    con.execute('DROP MODEL "odd name"')
    assert "odd name" not in con.models


def test_drop(con: mlsql.Session) -> None:
    con.execute(f"CREATE MODEL colours FROM 'means.pt' WITH {OPTIONS}")
    con.execute("DROP MODEL COLOURS")
    con.execute("DROP MODEL IF EXISTS colours")
    with pytest.raises(UnknownName, match="unknown model 'colours'"):
        con.execute("DROP MODEL colours")
    with pytest.raises(ProgrammingError, match="comes with mlsql and cannot be dropped"):
        con.execute("DROP MODEL ssd_mobilenet_v2")
    with pytest.raises(ProgrammingError, match="the statement is DROP MODEL"):
        con.execute("DROP MODEL a, b")
    con.register_model(lambda batch: [1] * len(batch), name="ones", task="predict",
                       input="INT", output="INT")
    with pytest.raises(ProgrammingError, match="a model of this session"):
        con.execute(f"CREATE OR REPLACE MODEL ones FROM 'means.pt' WITH {OPTIONS}")
    con.execute("DROP MODEL ones")
    assert "ones" not in con.models


def test_parameters(con: mlsql.Session) -> None:
    con.execute("CREATE MODEL a FROM ? WITH (task => ?, labels => ?, size => ?)",
                ["means.pt", "classify", ["r", "g", "b"], 8])
    con.execute("CREATE MODEL b FROM $file WITH (task => 'classify', labels => $labels, size => 8)",
                {"file": "means.pt", "labels": ["r", "g", "b"]})
    assert seen(con, "a") == seen(con, "b") == ["b", "g", "r"]


def test_show_and_describe(con: mlsql.Session, files: Path) -> None:
    from hashlib import sha256

    con.execute("CREATE MODEL colours FROM 'means.pt' WITH "
                + OPTIONS.replace("size", "licence => 'MIT', size"))
    row = con.execute("DESCRIBE MODEL colours").df().iloc[0]
    assert (row["name"], row["task"], row["labels"], row["licence"]) == (
        "colours", "classify", 3, "MIT")
    assert row["sha256"] == sha256((files / "means.pt").read_bytes()).hexdigest()
    assert row["origin"] == str(files / "means.pt")
    assert "colours" in [r[0] for r in con.execute("SHOW MODELS").fetchall()]
    assert con.execute("SELECT label FROM labels('colours') WHERE label = 'red'").fetchall()


def test_another_process_has_it(
    files: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path
) -> None:
    monkeypatch.chdir(files)
    database = tmp_path / "d.db"
    with mlsql.connect(str(database)) as con:
        con.execute(f"CREATE MODEL colours FROM 'means.pt' WITH {OPTIONS}")
        con.execute("CREATE VIEW seen AS SELECT path, CLASSIFY(image, model => 'colours') AS c "
                    f"FROM '{files}/*.png'")
        assert con.execute("SHOW TABLES").fetchall() == [("seen",)]
    sql = "SELECT string_agg(c, ' ' ORDER BY path) FROM seen"
    done = subprocess.run(
        [sys.executable, "-m", "mlsql", str(database), "--readonly", "--no-header", "--format",
         "csv", "-c", sql], capture_output=True, text=True, cwd=root, timeout=120)
    assert (done.stdout.strip(), done.stderr) == ("blue green red", "")
    with mlsql.connect(str(database), read_only=True) as con:
        assert "colours" in con.models
        with pytest.raises(mlsql.Error, match="read-only"):
            con.execute("DROP MODEL colours")


def test_the_file_must_stay_what_it_was(files: Path, tmp_path: Path) -> None:
    file = tmp_path / "m.pt"
    file.write_bytes((files / "means.pt").read_bytes())
    database = str(tmp_path / "d.db")
    with mlsql.connect(database) as con:
        con.execute(f"CREATE MODEL colours FROM '{file}' WITH {OPTIONS}")
    ask = f"SELECT CLASSIFY(image, model => 'colours') FROM '{files}/red.png'"
    torchscript(means(-10.0), file)
    with mlsql.connect(database, config={"cache": False}) as con:
        with pytest.raises(OperationalError, match=r"m\.pt is not the file it should be: its sha"):
            con.execute(ask)
        file.unlink()
        with pytest.raises(OperationalError, match=r"no weights at .*m\.pt"):
            con.execute(ask)
        torchscript(means(-10.0), file)
        con.execute(f"CREATE OR REPLACE MODEL colours FROM '{file}' WITH {OPTIONS}")
        assert value(con, ask) in ("green", "blue")


def test_other_weights_are_another_key_of_the_cache(files: Path, tmp_path: Path) -> None:
    ask = f"SELECT CLASSIFY(image, model => 'colours') FROM '{files}/red.png'"
    with mlsql.connect() as con:
        found = []
        for scale in (10.0, -10.0, 10.0):
            file = torchscript(means(scale), tmp_path / f"{scale}.pt")
            con.execute(f"CREATE OR REPLACE MODEL colours FROM '{file}' WITH {OPTIONS}")
            found.append((value(con, ask) == "red", con.last_stats.calls))
        assert found[:2] == [(True, 1), (False, 1)]
        assert found[2][0]


def test_transactions(con: mlsql.Session) -> None:
    con.execute("BEGIN")
    con.execute(f"CREATE MODEL colours FROM 'means.pt' WITH {OPTIONS}")
    assert "colours" in con.models
    con.execute("ROLLBACK")
    assert "colours" not in con.models
    con.execute(f"BEGIN; CREATE MODEL colours FROM 'means.pt' WITH {OPTIONS}; COMMIT")
    con.execute("BEGIN; DROP MODEL colours")
    with pytest.raises(ProgrammingError):
        con.execute("SELECT * FROM nowhere")
    con.execute("ROLLBACK")
    assert seen(con, "colours") == ["blue", "green", "red"]


def test_without_external_access(files: Path, tmp_path: Path) -> None:
    database = str(tmp_path / "d.db")
    linear = ("(task => 'predict', input => 'FLOAT[3]', output => 'DOUBLE', architecture => "
              "'torch.nn:Linear', arguments => {'in_features': 3, 'out_features': 1})")
    with mlsql.connect(database) as con:
        con.execute(f"CREATE MODEL colours FROM '{files}/means.pt' WITH {OPTIONS}")
        con.execute(f"CREATE MODEL price FROM '{files}/linear.pt' WITH {linear}")
    with mlsql.connect(database, config={"enable_external_access": False}) as con:
        assert not {"colours", "price"} & set(con.models)
        with pytest.raises(ProgrammingError, match="may not be read"):
            con.execute(f"CREATE MODEL c2 FROM '{files}/means.pt' WITH {OPTIONS}")
    allowed = {"enable_external_access": False, "allowed_directories": [str(files)]}
    with mlsql.connect(database, config=allowed) as con:
        assert {"colours", "price"} & set(con.models) == {"colours"}
        with pytest.raises(ProgrammingError, match="architecture imports a module"):
            con.execute(f"CREATE MODEL p2 FROM '{files}/linear.pt' WITH {linear}")


def test_a_database_whose_name_is_that_of_the_schema(files: Path, tmp_path: Path) -> None:
    with mlsql.connect(str(tmp_path / "mlsql.db")) as con:
        con.execute(f"CREATE MODEL colours FROM '{files}/means.pt' WITH {OPTIONS}")
        assert "colours" in con.models


def test_a_real_network_out_of_a_file_answers_as_it_does_built_in(
    con: mlsql.Session, bikes: Path, tmp_path: Path
) -> None:
    import torch

    from mlsql.udfs.models import efficientnet_lite0

    network = efficientnet_lite0.load(efficientnet_lite0.SPEC, "cpu").network
    file = torchscript(network, tmp_path / "lite0.pt", torch.rand(2, 3, 224, 224))
    con.execute(f"""CREATE MODEL lite FROM '{file}' WITH (task => 'classify', labels => 'imagenet',
        size => 224, resize => 'crop', scale => 128, mean => 0.9921875)""")
    # The built-in model looks at the middle of a picture: the square of 224/256 of its height.
    rows = con.execute(f"""
        SELECT efficient.label, own.label, efficient.scores, own.scores FROM (
            SELECT ML_PREDICT(efficientnet_lite0, frame) AS efficient,
                   lite(CROP(frame, 201, 17, 439, 255)) AS own
            FROM '{bikes}' WHERE frame_id IN (60, 180))""").fetchall()
    assert len(rows) == 2
    for built_in, own, scores, own_scores in rows:
        assert built_in == own
        np.testing.assert_allclose(scores, own_scores, atol=1e-4)
