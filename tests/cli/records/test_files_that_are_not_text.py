"""A file that is not text is refused by its first bytes, in a sentence that names its kind and the way on."""

import bz2
import gzip
import io
import lzma
import sqlite3
import tarfile
import zipfile
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather, orc

from tandem import Event, Source
from tandem.cli.records.file_values import file_values
from tandem.views.errors import TandemError

TABLE = pa.table({"n": list(range(100)), "text": ["ä"] * 100})


class Line(Event):
    at: datetime


SOURCE = Source(topic="lines", event=Line, event_time="at", name="lines")


def stream(compression: str) -> Callable[[Path], None]:
    def write(file: Path) -> None:
        with pa.output_stream(str(file), compression=compression) as sink:
            sink.write(b'{"at": 1}\n' * 100)

    return write


def zipped(file: Path) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.json", "{}")


def tarred(file: Path) -> None:
    with tarfile.open(file, "w") as archive:
        archive.addfile(tarfile.TarInfo("a.json"), io.BytesIO())


def avro(file: Path) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "n", "type": "int"}]}
    with file.open("wb") as out:
        fastavro.writer(out, schema, [{"n": 1}])


def database(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("create table t (n int)")
    connection.close()


FILES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "gzip": (lambda file: file.write_bytes(gzip.compress(b"{}\n")), "gzip", "let its name end in .gz"),
    "zstd": (stream("zstd"), "Zstandard", "zstd -dc FILE"),
    "lz4": (stream("lz4"), "LZ4", "lz4 -dc FILE"),
    "bzip2": (lambda file: file.write_bytes(bz2.compress(b"{}\n")), "bzip2", "bzip2 -dc FILE"),
    "xz": (lambda file: file.write_bytes(lzma.compress(b"{}\n")), "xz", "xz -dc FILE"),
    "zip": (zipped, "zip", "unpack it"),
    "tar": (tarred, "tar", "unpack it"),
    "parquet": (lambda file: pq.write_table(TABLE, file), "Parquet", "ends in .parquet"),
    "orc": (lambda file: orc.write_table(TABLE, str(file)), "ORC", "JSON lines"),
    "feather": (lambda file: feather.write_feather(TABLE, str(file)), "Arrow", "JSON lines"),
    "avro": (avro, "Avro container", "python -m fastavro FILE"),
    "sqlite": (database, "SQLite", "JSON lines"),
    "utf16": (lambda file: file.write_text("at\n1\n", encoding="utf-16"), "UTF-16", "iconv"),
}


@pytest.mark.parametrize("kind", FILES)
def test_a_file_that_is_not_text_is_named_with_the_way_on(tmp_path: Path, kind: str) -> None:
    write, name, remedy = FILES[kind]
    file = tmp_path / "export.json"
    write(file)
    with pytest.raises(TandemError) as refused, file_values(SOURCE, file):
        pass
    sentence = str(refused.value)
    assert sentence.startswith(f"{file} is not a file of lines: by its first bytes it is {name}")
    assert remedy in sentence


@pytest.mark.parametrize("start", [b"ORC,PAR1\n", b"PAR1 is a name\n", b"BZh,1\n", b"\xef\xbb\xbfat\n", b"\x00\x00{}\n", b""])
def test_a_text_is_read_whatever_its_first_letters(tmp_path: Path, start: bytes) -> None:
    file = tmp_path / "export.csv"
    file.write_bytes(start)
    with file_values(SOURCE, file) as values:
        assert [value.value for value in values] == [line.lstrip(b"\0") for line in start.split(b"\n")[:-1]]
