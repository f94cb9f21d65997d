"""A bucket beyond the port: ranges of large objects, credentials from the environment, errors of one line."""

import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tandem.cli.demo.s3_server import bucket
from tandem.infra.folders import child_environment
from tandem.infra.storage.object_store import ObjectStore, StoreFailed
from tandem.infra.storage.resolve import is_local, storage_at
from tandem.views.errors import TandemError
from tests.infra.storage.azure import azure_container
from tests.infra.storage.go_s3 import go_bucket
from tests.infra.storage.google import google_bucket
from tests.infra.storage.quick_s3 import quick_bucket
from tests.infra.storage.s3 import Refusing, a_bucket
from tests.stack import environ

CREDENTIALS = ("aws_access_key_id", "aws_secret_access_key")


STORES: Final = [bucket, *(pytest.param(of, marks=pytest.mark.slow) for of in (go_bucket, azure_container, google_bucket))]


@pytest.mark.parametrize("of", STORES)
def test_an_upload_of_many_parts_is_one_object_when_it_is_closed(of: Callable[..., Any]) -> None:
    content = random.Random(1).randbytes(20 << 20)
    with a_bucket(of=of) as (url, options):
        storage = ObjectStore(url, options)
        upload = storage.create("large")
        for start in range(0, len(content), 3 << 20):
            upload.stream.write(content[start : start + (3 << 20)])
            assert storage.head("large") is None
        assert upload.close() == len(content)
        with storage.open("large") as file:
            assert file.read() == content
            file.seek(-5, 2)
            assert (file.read(), file.read()) == (content[-5:], b"")
            file.seek(9 << 20)
            assert file.read(7) == content[9 << 20 : (9 << 20) + 7]


@pytest.mark.parametrize("of", STORES)
def test_an_upload_of_many_parts_that_is_aborted_leaves_no_object(of: Callable[..., Any]) -> None:
    with a_bucket(of=of) as (url, options):
        upload = ObjectStore(url, options).create("large")
        upload.stream.write(bytes(20 << 20))
        upload.abort()
        assert list(ObjectStore(url, options).list_after("")) == []


def test_some_columns_of_a_parquet_file_are_read_without_the_others() -> None:
    with a_bucket() as (url, options):
        storage = ObjectStore(url, options)
        rows = pa.table({"n": range(100_000), "text": [f"{n}" * 20 for n in range(100_000)]})
        with storage.create("t/part.parquet") as upload:
            pq.write_table(rows, upload.stream, use_dictionary=False, compression="none")
        with storage.open("t/part.parquet") as file:
            assert pq.ParquetFile(file).read(["n"]) == rows.select(["n"])


def test_no_thread_of_arrow_is_left_with_the_last_reference_to_a_file() -> None:
    """Not even when the interpreter ends: there the thread would abort the process."""
    code = """
import gc
from tandem.infra.storage import object_store
object_store._ObjectReader.__del__ = lambda self: print(self._name, "is released")
storage = object_store.ObjectStore("memory:///")
for number in range(2 + object_store._opened_last.maxlen):
    storage.put_if_absent(f"file {number}", b"content")
    with storage.open(f"file {number}") as file:
        file.read()
del file
gc.collect()
"""
    ended = subprocess.run([sys.executable, "-c", code], env=child_environment(environ()), capture_output=True, check=True)
    assert ended.stdout == b"file 0 is released\nfile 1 is released\n", "of all files only the oldest"


def test_credentials_come_from_the_environment_and_are_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_bucket() as (url, options):
        for name in CREDENTIALS:
            monkeypatch.setenv(name.upper(), f"hush-{options[name]}")
        storage = storage_at(url, {name: value for name, value in options.items() if name not in CREDENTIALS})
        assert storage.put_if_absent("a", b"x")
    shown = f"{storage!r} {ObjectStore(url, {**options, 'aws_secret_access_key': 'hush-b'})!r}"
    assert "hush" not in shown


def test_a_store_that_is_gone_is_one_sentence_and_an_os_error() -> None:
    with a_bucket() as (url, options):
        storage = ObjectStore(url, {**options, "aws_endpoint_url": "http://127.0.0.1:1", "max_retries": "1"})
        for use in (storage.head, lambda name: storage.delete([name]), lambda name: list(storage.list_after(name))):
            with pytest.raises(OSError, match=r"a request to the object store failed: .*error.*; run the command again") as told:
                use("a")
            assert isinstance(told.value, TandemError)
            assert "\n" not in str(told.value)


def _uploaded(storage: ObjectStore, content: bytes) -> None:
    with storage.create("a") as upload:
        upload.stream.write(content)


USES: Final[Mapping[str, Callable[[ObjectStore], object]]] = {
    "head": lambda storage: storage.head("a"),
    "list": lambda storage: list(storage.list_after("a")),
    "put": lambda storage: storage.put_if_absent("a", b"x"),
    "small upload": lambda storage: _uploaded(storage, b"x"),
    "large upload": lambda storage: _uploaded(storage, bytes(20 << 20)),
    "delete": lambda storage: storage.delete(["a"]),
}


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
def test_refused_credentials_are_to_be_checked_and_nothing_to_be_repeated(status: str) -> None:
    said = r"the object store refused the credentials or their rights: [^\n]*; check the cred"
    with a_bucket(Refusing(status), of=quick_bucket) as (url, options):
        for use in USES.values():
            with pytest.raises(StoreFailed, match=said) as told:
                use(ObjectStore(url, options))
            assert "again" not in str(told.value)


def test_a_path_is_local_and_a_url_is_not() -> None:
    assert all(map(is_local, ("/a", "a", "file:///a")))
    assert not any(map(is_local, ("s3://b/c", "gs://b", "abfss://c@d/e")))
