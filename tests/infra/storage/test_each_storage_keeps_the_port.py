"""One suite for each implementation of the port of `infra/storage`: names, writes that end or are abandoned, races, listings."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Barrier
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings, strategies

from tandem.cli.demo.s3_server import bucket as bucket_of_moto
from tandem.infra.storage.local import Local
from tandem.infra.storage.object_store import ObjectStore
from tandem.infra.storage.storage import InvalidName, Storage
from tests.infra.storage.azure import azure_container
from tests.infra.storage.go_s3 import go_bucket
from tests.infra.storage.google import google_bucket
from tests.infra.storage.quick_s3 import quick_bucket
from tests.infra.storage.s3 import a_bucket

HOSTILE = (
    *("%2E", "50%25", "a b", "a+b", "ä/ß.parquet", "x?y=z&w", "#1", "~", "'\"", "\\"),
    *("..a", "a..", ".a", "batch_version=1/part.parquet"),
)
"""Names that somebody might decode, encode, or take for a query, a fragment or a folder."""


@pytest.fixture(scope="module")
def bucket() -> Iterator[Callable[[], Storage]]:
    """A maker of empty storages in a bucket of moto's server."""
    yield from _storages(bucket_of_moto)


@pytest.fixture(scope="module")
def quick() -> Iterator[Callable[[], Storage]]:
    """The same of the server in which sweeps run."""
    yield from _storages(quick_bucket)


@pytest.fixture(scope="module")
def go() -> Iterator[Callable[[], Storage]]:
    """The same of a server that is written in Go, if this machine can build it."""
    yield from _storages(go_bucket)


@pytest.fixture(scope="module")
def azure() -> Iterator[Callable[[], Storage]]:
    """The same of Azurite, if this machine can install it."""
    yield from _storages(azure_container)


@pytest.fixture(scope="module")
def google() -> Iterator[Callable[[], Storage]]:
    """The same of fake-gcs-server, if this machine can build it."""
    yield from _storages(google_bucket)


FETCHED = [pytest.param(name, marks=pytest.mark.slow) for name in ("go", "azure", "google")]


def _storages(of: Any) -> Iterator[Callable[[], Storage]]:
    with a_bucket(of=of) as (url, options):
        numbers = count()
        yield lambda: ObjectStore(f"{url}/{next(numbers)}", options)


@pytest.fixture(params=["a folder", "bucket", "quick", *FETCHED])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """An empty storage of each kind."""
    return Local(str(tmp_path / "root")) if request.param == "a folder" else request.getfixturevalue(request.param)()


def put(storage: Storage, name: str, content: bytes) -> int:
    with storage.create(name) as upload:
        upload.stream.write(content)
        return upload.close()


def read(storage: Storage, name: str) -> bytes:
    with storage.open(name) as file:
        return bytes(file.read())


def names(storage: Storage, prefix: str = "", after: str = "") -> list[str]:
    return [head.name for head in storage.list_after(prefix, after)]


def test_a_name_is_taken_literally(storage: Storage) -> None:
    for name in HOSTILE:
        if name == "\\" and str(getattr(storage, "url", "")).startswith("abfss:"):
            continue  # Azurite takes a backslash for a slash
        assert put(storage, name, b"content") == 7
        assert read(storage, name) == b"content"
        assert names(storage) == [name]
        head = storage.head(name)
        assert head is not None
        assert (head.name, head.size) == (name, 7)
        storage.delete([name])
        assert names(storage) == []


def test_names_that_differ_only_when_encoded_are_different_files(storage: Storage) -> None:
    for name in (".a", "%2Ea", "%252Ea"):
        put(storage, name, name.encode())
    assert {name: read(storage, name) for name in names(storage)} == {name: name.encode() for name in (".a", "%2Ea", "%252Ea")}


def test_a_name_or_prefix_that_could_leave_the_root_is_refused(storage: Storage) -> None:
    put(storage, "a/b", b"x")
    uses = (
        storage.open,
        storage.head,
        storage.create,
        lambda it: storage.put_if_absent(it, b""),
        lambda it: storage.delete([it]),
    )
    of_prefixes = (lambda it: names(storage, it), storage.delete_below)
    for name in ("/a", "a/", "a//b", "..", "a/../b", "./a", "a\nb", "a\0b", ""):
        for use in (*uses, *(of_prefixes if name not in ("", "a\0b") else ())):
            with pytest.raises(InvalidName, match="invalid file name"):
                use(name)
    assert names(storage) == ["a/b"]


def test_the_time_of_writing_is_in_milliseconds(storage: Storage) -> None:
    """Vacuum compares it with the time of running reads."""
    before = time.time()
    put(storage, "a", b"x")
    (listed,) = storage.list_after("")
    head = storage.head("a")
    assert head is not None
    for found in (listed, head):
        # A bucket may write whole seconds.
        assert before - 1 <= found.written_ms / 1000 <= time.time() + 1


def test_an_absent_file_is_not_an_error(storage: Storage) -> None:
    assert storage.head("a/b") is None
    assert names(storage, "a") == []
    storage.delete(["a/b", "c"])
    storage.delete_below("a")
    with pytest.raises(FileNotFoundError):
        storage.open("a/b")


def test_a_folder_is_not_a_file(storage: Storage) -> None:
    put(storage, "a/b", b"x")
    assert storage.head("a") is None
    assert storage.head("a/b/c") is None
    assert names(storage, "a/b") == []


def test_close_returns_the_size_and_parquet_can_read_the_file(storage: Storage) -> None:
    rows = pa.table({"n": range(1000)})
    with storage.create("t/part.parquet") as upload:
        pq.write_table(rows, upload.stream)
        size = upload.close()
    head = storage.head("t/part.parquet")
    assert head is not None
    assert head.size == size > 0
    with storage.open("t/part.parquet") as file:
        assert pq.ParquetFile(file).read() == rows


def test_a_file_whose_writer_failed_does_not_exist(storage: Storage) -> None:
    with suppress(ZeroDivisionError), storage.create("a") as upload:
        upload.stream.write(b"ha")
        upload.stream.write(bytes(1 // 0))
    assert storage.head("a") is None


def test_abort_after_close_changes_nothing(storage: Storage) -> None:
    upload = storage.create("a")
    upload.stream.write(b"x")
    upload.close()
    upload.abort()
    assert read(storage, "a") == b"x"


def test_of_many_concurrent_puts_one_succeeds_and_its_content_stays(storage: Storage) -> None:
    writers = 8
    for number in range(25):
        together = Barrier(writers)

        def one(writer: int, name: str = f"log/{number:020}.json", together: Barrier = together) -> bool:
            together.wait()
            return storage.put_if_absent(name, bytes([writer]) * 1000)

        with ThreadPoolExecutor(writers) as threads:
            won = [writer for writer, first in enumerate(threads.map(one, range(writers))) if first]
        assert len(won) == 1
        assert read(storage, f"log/{number:020}.json") == bytes(won) * 1000
    assert names(storage, "log") == [f"log/{number:020}.json" for number in range(25)]


def test_put_if_absent_leaves_an_existing_file(storage: Storage) -> None:
    put(storage, "a", b"first")
    assert storage.put_if_absent("a", b"second") is False
    assert read(storage, "a") == b"first"
    storage.delete(["a"])
    assert storage.put_if_absent("a", b"third") is True
    assert read(storage, "a") == b"third"


def test_a_listing_has_the_sizes_and_tags_of_heads(storage: Storage) -> None:
    for name in ("a", "b/c"):
        put(storage, name, name.encode())
    listed = [(head.name, head.size, head.tag) for head in storage.list_after("")]
    heads = [head for name in ("a", "b/c") if (head := storage.head(name)) is not None]
    assert listed == [(head.name, head.size, head.tag) for head in heads]


def test_many_files_are_deleted_and_absent_ones_ignored(storage: Storage) -> None:
    for number in range(300):
        put(storage, f"many/{number:03}", b"")
    storage.delete([f"many/{number:03}" for number in range(1, 320)])
    assert names(storage) == ["many/000"]


def test_another_file_of_the_same_name_has_another_tag(storage: Storage) -> None:
    put(storage, "a", b"1")
    before = storage.head("a")
    assert storage.head("a") == before
    storage.put_if_absent("b", b"2")
    storage.delete(["a"])
    put(storage, "a", b"22")
    after = storage.head("a")
    assert before is not None
    assert after is not None
    assert before.tag != after.tag


def test_a_prefix_ends_at_a_part_of_the_name(storage: Storage) -> None:
    for name in ("a/x", "ab/x", "a/b/y", "a.b"):
        put(storage, name, b"")
    assert names(storage, "a") == ["a/b/y", "a/x"]
    storage.delete_below("a")
    assert names(storage) == ["a.b", "ab/x"]


PARTS = strategies.text(strategies.sampled_from("ab.-/%é=0~"), min_size=1, max_size=6).filter(
    lambda name: all(name.split("/")) and not {".", ".."} & {*name.split("/")}
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(given_names=strategies.sets(PARTS, max_size=8), after=PARTS)
def test_a_listing_is_in_the_order_of_utf8_and_starts_beyond_a_name(storage: Storage, given_names: set[str], after: str) -> None:
    storage.delete_below("run")
    # A folder cannot have the name of a file.
    files = {f"run/{name}" for name in given_names if not any(other.startswith(f"{name}/") for other in given_names)}
    for name in files:
        put(storage, name, b"")
    in_order = sorted(files, key=str.encode)
    assert names(storage, "run") == in_order
    assert names(storage, "run", f"run/{after}") == [name for name in in_order if name.encode() > f"run/{after}".encode()]
