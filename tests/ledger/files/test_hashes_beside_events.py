"""Files of an events table may have hashes of identities, which its schema lacks: what is read is what would be computed."""

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from tandem.batch.archive import decode_to_files
from tandem.batch.archive.decode_to_files import Decoding
from tandem.batch.maintain.compact import compact
from tandem.batch.runtime import delta_commits
from tandem.batch.runtime.parquet_writer import TableFile, Written
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.files.file_ranges import EVENTS, file_ranges
from tandem.ledger.files.identity_hashes import IdentityHash
from tandem.ledger.files.scan import scan
from tandem.ledger.files.splits import Slice
from tandem.ledger.log.positions import Position
from tandem.views.project import project
from tandem.views.source.offset_ranges import Ranges
from tandem.views.source.source import RECORDS_SCHEMA, events_schema, record_columns
from tests.batch.shop import DEFINITIONS

FILES = {"tandem.toml": b"", "definitions.py": DEFINITIONS.encode()}
SOURCE = project.load_files(FILES).sources["sales"]
HASH = IdentityHash(("id", "at"))
AT = datetime(2026, 1, 1, tzinfo=UTC)
PLACE = {"_topic_id": pa.string(), "_partition": pa.int32(), "_offset": pa.int64()}
KINDS = {
    "text": (pa.string(), st.text(max_size=3)),
    "number": (pa.int64(), st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)),
    "real": (pa.float64(), st.floats()),
    "truth": (pa.bool_(), st.booleans()),
    "day": (pa.date32(), st.dates(date(1, 1, 1), date(9999, 12, 31))),
    "time": (pa.timestamp("us", "UTC"), st.integers(-(2**53), 2**53)),
    "amount": (pa.decimal128(18, 2), st.integers(-(10**15), 10**15).map(lambda cents: Decimal(cents) / 100)),
    "list": (pa.list_(pa.string()), st.lists(st.none() | st.text(max_size=2), max_size=3)),
    "struct": (pa.struct({"a": pa.string(), "b": pa.int64()}), st.fixed_dictionaries({"a": st.text(max_size=2), "b": st.none()})),
    "repeated": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["x", "y"])),
}


def whole(files: list[Written], rows: int) -> Slice:
    return Slice(Ranges.of({("T", 0): (0, rows)}), tuple(file.path for file in files), rows)


@given(st.data(), st.sampled_from(sorted(KINDS)), st.sampled_from(sorted(KINDS)))
def test_a_stored_hash_is_the_hash_of_what_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, first: str, second: str
) -> None:
    """Whatever the types of an identity's columns are, and however often a value repeats."""
    kinds = {"a": KINDS[first], "b": KINDS[second]}
    columns = {name: data.draw(st.lists(st.none() | values, min_size=5, max_size=5)) for name, (_, values) in kinds.items()}
    schema = pa.schema({**PLACE, **{name: kind for name, (kind, _) in kinds.items()}})
    rows = pa.table({"_topic_id": ["T"] * 5, "_partition": [0] * 5, "_offset": range(5), **columns}, schema)
    identity, place = IdentityHash(("a", "b")), Location(str(tmp_path_factory.mktemp("events")))
    with TableFile(place, schema, EVENTS.names, beside=(identity.field,), in_log_order=True) as file:
        file.write(identity.added(rows))
    assert file.written is not None

    (read,) = scan(place, whole([file.written], 5), EVENTS, ["a", "b"], rows=9, made=identity)

    assert read[identity.name].to_pylist() == identity.made(read).to_pylist() == identity.made(rows).to_pylist()
    assert read.column_names == ["a", "b", identity.name]


def sale(offset: int) -> dict[str, object]:
    value = f'{{"id": "i{offset % 7}", "at": "2026-01-01T00:00:00Z", "shop": "s", "cents": {offset}}}'
    row = {"topic_id": "T", "partition": 0, "offset": offset, "timestamp": AT + timedelta(seconds=offset), "timestamp_type": 0}
    return {**row, "key": None, "value": value.encode(), "headers": None}


def decoded(work: Decoding, first: int, end: int) -> list[Written]:
    """The events files of records that are decoded as an archive run decodes them."""
    records = pa.Table.from_pylist([sale(offset) for offset in range(first, end)], RECORDS_SCHEMA)
    with decode_to_files.opened(work) as files:
        files.write(records.select(record_columns(SOURCE)))
    assert files.decoded.quarantined == {}
    return list(files.decoded.events)


@pytest.fixture
def work(tmp_path: Path) -> Decoding:
    tables = Tables(str(tmp_path))
    places = [Location.of(tables, address) for address in (tables.events("sales", "d"), tables.quarantine("sales", "d"))]
    return Decoding(FILES, "sales", Location.of(tables, tables.archive("sales")), *places)


def test_the_table_does_not_show_the_hashes_that_its_files_have(tmp_path: Path, work: Decoding) -> None:
    tables, address = Tables(str(tmp_path)), work.events.address
    handle = delta_commits.make_table(tables, address, events_schema(SOURCE), bounded=decode_to_files.bounded(SOURCE))
    delta_commits.add_files(handle, decoded(work, 0, 20))

    table = DeltaTable(address)
    assert all(HASH.name in pq.read_schema(Path(address, path)).names for path in [file.path for file in files_of(table)])
    assert table.to_pyarrow_table().column_names == events_schema(SOURCE).names
    assert set(pa.table(table.get_add_actions(flatten=True)).column_names).isdisjoint({f"min.{HASH.name}", f"max.{HASH.name}"})


def files_of(table: DeltaTable) -> list[Written]:
    return [Written(span.path, span.size, span.rows, {}, {}, 0) for span in file_ranges(table, EVENTS)]


@pytest.mark.parametrize("lacking", [False, True])
def test_compaction_keeps_the_hashes_that_all_files_have(tmp_path: Path, work: Decoding, lacking: bool) -> None:  # noqa: FBT001
    """Of files that have none, the rows stay, and the hashes are computed when they are needed."""
    tables, address = Tables(str(tmp_path)), work.events.address
    handle = delta_commits.make_table(tables, address, events_schema(SOURCE), bounded=decode_to_files.bounded(SOURCE))
    files = [*decoded(work, 0, 10), *decoded(work, 10, 20)]
    if lacking:
        with TableFile(work.events, events_schema(SOURCE), decode_to_files.bounded(SOURCE)) as earlier:
            earlier.write(pq.read_table(Path(address, files.pop().path)).drop_columns(HASH.name))
        assert earlier.written is not None
        files.append(earlier.written)
    delta_commits.add_files(handle, files)
    columns = [*events_schema(SOURCE).names]
    before = pa.concat_tables(scan(work.events, whole(files, 20), EVENTS, columns, rows=99, made=HASH))

    assert compact(tables, address, EVENTS, Position.of({("T", 0): 20}), file_bytes=10**9, at=AT) == (2, 1)

    rewritten = files_of(DeltaTable(address))
    after = pa.concat_tables(scan(work.events, whole(rewritten, 20), EVENTS, columns, rows=99, made=HASH))
    assert after == before
    assert (HASH.name in pq.read_schema(Path(address, rewritten[0].path)).names) != lacking


def test_hashes_of_another_identity_are_not_read(work: Decoding, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor hashes of another DuckDB, which may compute others."""
    files, columns = decoded(work, 0, 20), [*events_schema(SOURCE).names]
    for identity in (IdentityHash(("id",)), IdentityHash(("at", "id")), IdentityHash(("id", "shop", "at"))):
        (read,) = scan(work.events, whole(files, 20), EVENTS, columns, rows=99, made=identity)
        assert read[identity.name].to_pylist() == identity.made(read).to_pylist()
    names = {IdentityHash(columns).name for columns in (("id",), ("id", "at"), ("at", "id"), ("id,at",))}
    monkeypatch.setattr(duckdb, "__version__", "99.0.0")
    assert len(names) == 4
    assert HASH.name not in names
    (read,) = scan(work.events, whole(files, 20), EVENTS, columns, rows=99, made=HASH)
    assert read[HASH.name].to_pylist() == HASH.made(read).to_pylist()


def test_a_source_without_identity_has_no_hashes(work: Decoding) -> None:
    text = DEFINITIONS.replace("identity=", "identity=() and ")
    files = {**FILES, "definitions.py": text.encode()}
    source = project.load_files(files).sources["sales"]
    assert IdentityHash.of_source(source) is None
    (file,) = decoded(replace(work, definitions=files), 0, 20)
    assert pq.read_schema(Path(work.events.address, file.path)).names == events_schema(source).names


def test_offsets_and_times_are_stored_as_differences_and_hashes_as_they_are(work: Decoding) -> None:
    (file,) = decoded(work, 0, 20)
    group = pq.ParquetFile(Path(work.events.address, file.path)).metadata.row_group(0)
    found = {group.column(n).path_in_schema: set(group.column(n).encodings) for n in range(group.num_columns)}
    for name in ("_offset", "_append_time", "at"):
        assert "DELTA_BINARY_PACKED" in found[name]
    assert "RLE_DICTIONARY" in found["shop"]
    assert found[HASH.name] == {"PLAIN", "RLE"}
