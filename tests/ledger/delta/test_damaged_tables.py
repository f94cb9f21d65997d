"""An unreadable or unwritable table is one sentence with its place; it never counts as empty, and is never overwritten."""

import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from msgspec import structs

from tandem.infra.settings import Settings, StorageSettings
from tandem.infra.storage.object_store import StoreFailed
from tandem.ledger.delta import addresses, delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Unreadable, Unwritable, unreadable
from tandem.ledger.delta.journal import Journal
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.realtime.commit_files import spans_of
from tandem.ledger.realtime.follower import Follower
from tandem.views.errors import TandemError
from tests.infra.storage.quick_s3 import quick_bucket
from tests.infra.storage.s3 import Refusing, a_bucket
from tests.ledger.tiny import AT, SOURCE, at, claim, commit_each, first, publish_cut


def _garbage_entry(table: Path) -> None:
    (table / "_delta_log" / f"{1:020}.json").write_text("garbage{")


def _binary_entry(table: Path) -> None:
    (table / "_delta_log" / f"{1:020}.json").write_bytes(bytes(range(256)))


def _missing_entry(table: Path) -> None:
    (table / "_delta_log" / f"{0:020}.json").unlink()


def _garbage_file(table: Path) -> None:
    for path in table.glob("*.parquet"):
        path.write_bytes(b"PAR1 no more")


def _missing_file(table: Path) -> None:
    for path in table.glob("*.parquet"):
        path.unlink()


def _a_file_instead(table: Path) -> None:
    shutil.rmtree(table)
    table.write_text("what?")


@pytest.mark.parametrize("damage", [_garbage_entry, _binary_entry, _missing_entry, _garbage_file, _missing_file, _a_file_instead])
def test_a_damaged_table_is_one_sentence_with_its_path(tables: Tables, damage: Callable[[Path], None]) -> None:
    first(tables)
    commit_each(claim(tables), at(1, 1))
    Releases(tables).store({"a.py": b""}, sources={}, views={}, by="test", at=AT)
    reads: dict[str, Callable[[], object]] = {
        tables.control("publications"): lambda: (Publications(tables).latest(), Publications(tables).history()),
        tables.control("releases"): lambda: Releases(tables).load(1),
        tables.realtime(1, SOURCE): lambda: (spans_of(tables, 1, SOURCE), Follower(tables, 1, SOURCE).poll()),
    }
    for address, read in reads.items():
        read()
        damage(Path(address))
        with pytest.raises(Unreadable) as raised:
            read()
        assert address in str(raised.value)
        assert "\n" not in str(raised.value)


def test_a_damaged_table_is_not_created_again(tables: Tables) -> None:
    first(tables)
    _garbage_entry(Path(tables.control("publications")))
    with pytest.raises(Unreadable):
        first(tables)


@contextmanager
def _full_disk() -> Iterator[None]:
    """No file of this process may grow past a few bytes: the kernel fails the write, as it does on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_one_sentence_and_nothing_is_lost(tables: Tables) -> None:
    first(tables)
    writer = claim(tables)
    commit_each(writer, at(1, 1), at(2, 2))
    with (
        _full_disk(),
        pytest.raises(Unwritable, match=r"cannot write to table .*/control/publications.*: .*too large") as published,
    ):
        publish_cut(tables, at(1, 1))
    with (
        _full_disk(),
        pytest.raises(Unwritable, match=r"cannot write to table .*/realtime/1/numbers.*: .*too large") as committed,
    ):
        commit_each(writer, at(3, 3))
    with _full_disk(), pytest.raises(Unwritable, match=r"cannot write to table .*/realtime/1/numbers.*: .*too large"):
        writer.compact(lambda _, partials: partials[0], live=at(0, 0), at=AT, fanout=2)
    assert "\n" not in str(published.value) + str(committed.value)
    assert [publication.number for publication in Publications(tables).history()] == [1]
    assert publish_cut(tables, at(1, 1)).number == 2
    commit_each(writer, at(3, 3))


def test_a_folder_that_cannot_be_created_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file")
    with pytest.raises(TandemError, match=r"cannot create the folder .*/state for tables: File exists"):
        first(Tables(str(tmp_path / "state")))


def test_folders_with_blanks_and_umlauts_work(tmp_path: Path) -> None:
    tables = Tables(str(tmp_path / "my stäte"))
    first(tables)
    commit_each(claim(tables), at(1, 1))
    writer = claim(tables)
    writer.compact(lambda _, partials: partials[0], live=at(0, 0), at=AT, fanout=2)
    publish_cut(tables, at(1, 1))
    assert Follower(tables, 1, SOURCE).poll()


def test_a_folder_with_a_percent_sign_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TandemError, match="its path contains a '%'"):
        Tables(str(tmp_path / "50%25"))


def test_a_relative_folder_is_made_absolute_and_a_uri_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert Tables("state").archive("s") == str(tmp_path / "state/log/s/archive")
    assert Tables("s3://bucket/t/").realtime(3, "s") == "s3://bucket/t/realtime/3/s"


def test_the_settings_name_the_folder_of_the_tables(tmp_path: Path) -> None:
    state = Settings(state=str(tmp_path / "state"))
    assert Tables.of(state).root == str(tmp_path / "state" / "tables")
    assert Tables.of(structs.replace(state, storage=StorageSettings(root="/elsewhere"))).root == "/elsewhere"


def test_a_root_on_a_network_file_system_is_refused_unless_declared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "network_file_system", lambda folder: "nfs4" if folder == tmp_path / "tables" else None)
    state = Settings(state=str(tmp_path))
    with pytest.raises(TandemError, match=r"tables is on a network file system \(nfs4\), .* set `storage.root`"):
        Tables.of(state)
    assert Tables.of(structs.replace(state, storage=StorageSettings(network="locks"))).root == str(tmp_path / "tables")
    assert Tables.of(structs.replace(state, storage=StorageSettings(root="/elsewhere"))).root == "/elsewhere"


def test_a_created_root_is_private(tmp_path: Path) -> None:
    tables = Tables(str(tmp_path / "disk" / "shop"))
    first(tables)
    assert Path(tables.root).stat().st_mode & 0o777 == 0o700


def test_a_root_that_exists_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir(mode=0o750)
    first(Tables(str(tmp_path / "shop")))
    assert (tmp_path / "shop").stat().st_mode & 0o777 == 0o750


def test_control_tables_are_plain(tables: Tables) -> None:
    first(tables)
    handle = delta_tables.open_table(tables, tables.control("publications"))
    assert handle is not None
    assert (handle.protocol().min_reader_version, handle.protocol().min_writer_version) == (1, 2)
    assert handle.metadata().configuration["delta.enableExpiredLogCleanup"] == "false"


def test_a_row_that_landed_despite_an_error_is_found(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tables, tables.control("notes"), pa.schema([("text", pa.string())]))
    real = delta_tables.conditional_append

    def lost(handle: object, rows: pa.Table, *, lease: None) -> None:
        real(delta_tables.reopen(handle), rows, lease=lease)  # type: ignore[arg-type]
        raise Unwritable("the connection was lost after the commit")

    monkeypatch.setattr(delta_tables, "conditional_append", lost)
    stored = journal.add(lambda _: {"text": "a"})
    assert stored is not None
    assert stored["number"] == 1
    assert [row["text"] for row in journal.read().rows()] == ["a"]


def test_a_store_that_does_not_answer_is_no_damaged_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    options = {"aws_endpoint_url": "http://127.0.0.1:9", "aws_allow_http": "true", "max_retries": "0", "aws_region": "x"}
    tables = Tables.of(Settings(state=str(tmp_path), storage=StorageSettings(root="s3://bucket/tables", options=options)))
    with pytest.raises(Unreadable) as raised:
        delta_tables.open_table(tables, f"{tables.root}/table")

    assert "run the command again" in str(raised.value)
    assert "remove" not in str(raised.value)


@pytest.mark.parametrize(
    ("status", "code", "advice"),
    [
        ("401 Unauthorized", "InvalidAccessKeyId", "; check the credentials and their rights"),
        ("403 Forbidden", "AccessDenied", "; check the credentials and their rights"),
        ("400 Bad Request", "ExpiredToken", "; check the credentials and their rights"),
        ("400 Bad Request", "InvalidToken", "; check the credentials and their rights"),
        ("400 Bad Request", "InvalidArgument", "; run the command again"),
    ],
)
def test_a_store_that_refuses_credentials_says_what_to_check(status: str, code: str, advice: str) -> None:
    with a_bucket(Refusing(status, code), of=quick_bucket) as (url, options), pytest.raises(Unreadable) as raised:
        delta_tables.open_table(Tables(url, options), f"{url}/table")

    assert advice in str(raised.value)
    assert ("again" in str(raised.value)) is ("again" in advice)


def test_an_error_with_advice_of_its_own_gets_no_other() -> None:
    with pytest.raises(Unreadable) as raised:
        unreadable("s3://bucket/table", StoreFailed("a request failed; run the command again"))

    assert str(raised.value) == "cannot read table s3://bucket/table: a request failed; run the command again"


def test_a_lack_of_memory_damages_no_table() -> None:
    """Arrow's error of memory is an error of Arrow, too, which otherwise speaks of a file."""
    with pytest.raises(MemoryError, match="malloc of 9 bytes failed"):
        unreadable("/state/table", pa.ArrowMemoryError("malloc of 9 bytes failed"))
