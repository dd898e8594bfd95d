"""Every data set has its shape, and where its data is there, its tables can be asked."""

from __future__ import annotations

import functools
import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import datasets
import mlsql
from datasets.places import Absent, download, in_package, in_test_data

ROWS = {
    "bikes": 250, "skimage_pictures": 4, "sklearn_pictures": 2,
    "tfl_jamcam": 14697, "pets09": 795, "pets09_counts": 300,
    # The header of the first clip says 467; 459 of its pictures can be decoded.
    "intel": 459 + 1394 + 377 + 1189, "coco": 412, "imagenet": 1000, "imagenet_labels": 1000,
    "composites": 24, "composites_labels": 24, "supg_imagenet": 50000, "supg_onto": 11165,
    "counts_jackson": 973086, "counts_taipei": 1188228, "counts_grand_canal": 1299207,
    "blobs_00": 1000, "objects00": 605, "employee": 4653, "home_rentals": 5037,
    "air_passengers": 144, "birds": 772, "digits": 1200, "digits_truth": 1200,
}


@pytest.mark.parametrize("name", datasets.names())
def test_a_data_set_says_what_it_is(name: str) -> None:
    one = datasets.load(name)
    assert one.__doc__ and one.ORIGIN and one.LICENCE
    try:
        where = one.where()
    except Absent as absent:
        assert str(absent)
        return
    assert where.exists()
    assert one.tables()


@pytest.mark.parametrize("name", datasets.names())
def test_its_tables_can_be_asked(name: str) -> None:
    one = datasets.load(name)
    try:
        one.where()
    except Absent as absent:
        pytest.skip(str(absent))
    with mlsql.connect() as con:
        tables = datasets.attach(con, name)
        assert tables
        for table in tables:
            rows = con.execute(f'SELECT count(*) FROM "{table}"').fetchall()[0][0]
            assert rows == ROWS.get(table, rows) > 0


def test_known_rows_are_of_known_tables(data: Path) -> None:
    known = {table for name in datasets.names() if not name.startswith("public_")
             for table in datasets.load(name).tables()}
    assert ROWS.keys() <= known


def test_an_unknown_data_set() -> None:
    with pytest.raises(Absent, match=r"no data set 'bike'; there are .*bikes"):
        datasets.load("bike")


def test_absent_data_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLSQL_TEST_DATA", str(tmp_path))
    monkeypatch.setenv("MLSQL_DATASETS", str(tmp_path))
    with pytest.raises(Absent, match="set MLSQL_TEST_DATA"):
        in_test_data("images/coco")
    with pytest.raises(Absent, match="pip install no-such-package"):
        in_package("no-such-package", "x")
    for name in ("public_pictures", "public_eagle"):
        with pytest.raises(Absent, match=rf"datasets.{name}.fetch\(\)"):
            datasets.load(name).where()


def test_the_hashes_of_public_pictures_are_those_of_the_package() -> None:
    from datasets import public_pictures, skimage_pictures

    for name, sha256 in public_pictures.FILES.items():
        content = (skimage_pictures.where() / name).read_bytes()
        assert hashlib.sha256(content).hexdigest() == sha256


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a server that offers the file a.bin with the content b'abc'."""
    (tmp_path / "served").mkdir()
    (tmp_path / "served" / "a.bin").write_bytes(b"abc")
    handler = functools.partial(QuietHandler, directory=str(tmp_path / "served"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}/"
        running.shutdown()
        thread.join()


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


def test_a_download_is_checked(server: str, tmp_path: Path) -> None:
    right = hashlib.sha256(b"abc").hexdigest()
    path = tmp_path / "got" / "a.bin"
    with pytest.raises(Absent, match=f"has sha256 {right}, not 00: it was not kept"):
        download(server + "a.bin", "00", path)
    assert list(path.parent.iterdir()) == []
    assert download(server + "a.bin", right, path).read_bytes() == b"abc"
    assert download("http://127.0.0.1:9/gone", right, path) == path  # there already: not asked
    path.write_bytes(b"spoilt")
    assert download(server + "a.bin", right, path).read_bytes() == b"abc"
    assert [p.name for p in path.parent.iterdir()] == ["a.bin"]
