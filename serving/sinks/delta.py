"""A Delta table as a sink's target: rows and token are one commit.

The token is in the metadata of the commit: a newest commit without one is of another program. A transaction of the application
`tandem.sink` says for good that a sink writes the table. A merge of delta-rs that changes no row makes no commit, so a token
without rows is a commit without files.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction, write_deltalake

from tandem.infra.storage.resolve import is_local
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delta_tables import committing, open_table, refresh
from tandem.ledger.delta.errors import FAILURES, Unwritable, reason, unreadable
from tandem.serving.read.tabular import DIGITS, narrowed
from tandem.serving.sinks.sink_token import Stamp
from tandem.serving.sinks.target import SinkInProject, SinkRefused
from tandem.views.sinks.delta_table import SinkTable
from tandem.views.view import answer_schema

APPLICATION: Final = "tandem.sink"
METADATA: Final = "tandem.token"
PUBLICATION: Final = "tandem.publication"
COMPACT_EVERY: Final = 100
"""Commits after which a sink merges the small files of its table."""

_GONE: Final = "_gone"
_NOT_IN_PATHS: Final = "#%?[]^|\\"
"""Characters of a path that delta-rs 1.6 takes for parts of a URL, or panics at."""

_HOOKS: Final = PostCommitHookProperties(create_checkpoint=True, cleanup_expired_logs=False)
_NO_STATISTICS: Final = {"delta.dataSkippingNumIndexedCols": "0"}
"""delta-rs writes bounds of decimals as floats, and of floats without NaN, by which Spark and Arrow skip files that have the rows
asked for. Without bounds in the log readers skip row groups by those in the files, which are exact."""


def check_target(defined: SinkInProject) -> None:
    """Raise SinkRefused for a type that Delta lacks, and for a folder of the project's own tables or of another sink."""
    name, folder = defined.sink.name, defined.folder
    delta_schema(name, answer_schema(defined.view))
    assert isinstance(defined.sink.to, SinkTable)
    address, root = (_absolute(folder, place) for place in (defined.sink.to.address, Tables.of(defined.settings).root))
    if is_local(address) and (refused := set(_NOT_IN_PATHS) & set(address)):
        raise SinkRefused(
            f"sink {name!r}: {address} has a {min(refused)!r}, and the client of Delta takes no # % ? [ ] ^ | or backslash in a "
            "folder; name another"
        )
    if _overlap(address, root):
        raise SinkRefused(f"sink {name!r}: {address} is a folder of the project's own tables, in {root}; name another")
    for other in defined.project.sinks.values():
        if other.name != name and isinstance(other.to, SinkTable) and _overlap(address, _absolute(folder, other.to.address)):
            raise SinkRefused(
                f"sink {name!r}: {address} is also the folder of sink {other.name!r}, or one has the other in it; name another"
            )


def open_target(defined: SinkInProject) -> "DeltaTarget":
    """The table of a sink, which may not exist yet. Raises Unreadable."""
    assert isinstance(defined.sink.to, SinkTable)
    return open_at(defined.sink.name, _absolute(defined.folder, defined.sink.to.address), Tables.of(defined.settings))


def open_at(name: str, address: str, tables: Tables) -> "DeltaTarget":
    """The table of a sink at an absolute address, which may not exist yet. Raises Unreadable."""
    options = {} if is_local(address) else dict(tables.options)
    return DeltaTarget(name, address, options, open_table(replace(tables, options=options), address))


def delta_schema(name: str, columns: pa.Schema) -> pa.Schema:
    """The columns of a view's rows in Delta's types. Raises SinkRefused for a type that Delta lacks.

    Totals of integers and decimals have 76 digits, and Delta has 38: a value that needs more is refused when it comes.
    """
    fields = []
    for column in columns:
        try:
            kind = narrowed(column.type)
            Schema.from_arrow(pa.schema([pa.field(column.name, kind)]))
        except Exception as error:  # delta-rs raises a plain Exception for a type that it lacks
            raise SinkRefused(f"sink {name!r}: Delta has no type for column {column.name!r}, {column.type}") from error
        fields.append(pa.field(column.name, kind))
    return pa.schema(fields)


@dataclass
class DeltaTarget:
    """The table of a sink. Open it by `open_at`; one process at a time writes it, and another one's commit conflicts."""

    name: str
    address: str
    options: dict[str, str] = field(repr=False)
    handle: DeltaTable | None

    def token(self) -> str | None:
        """The token of the newest commit, if it is of a sink. Raises SinkRefused for a table of other programs, Unreadable."""
        if self.handle is None:
            return None
        if refresh(self.handle).transaction_version(APPLICATION) is None and self.handle.file_uris():
            raise SinkRefused(
                f"sink {self.name!r}: table {self.address} has rows that no sink has written; name a new folder for it"
            )
        return self.handle.history(1)[0].get(METADATA)

    def newest(self) -> str | None:
        """The token of the newest commit of a sink. Raises Unreadable."""
        commits = () if self.handle is None else refresh(self.handle).history()
        return next((commit[METADATA] for commit in commits if METADATA in commit), None)

    def convert(self, rows: pa.Table) -> pa.Table:
        """The rows in Delta's types. Raises SinkRefused for a number of more digits than Delta has."""
        try:
            return rows.cast(delta_schema(self.name, rows.schema))
        except pa.ArrowInvalid as error:
            raise SinkRefused(f"sink {self.name!r}: a value needs more than the {DIGITS} digits of Delta: {error}") from error

    def content(self, columns: pa.Schema, identity: Sequence[str]) -> pa.Table | None:
        """The rows of the table; None if it does not exist, has other columns, or two rows of one identity. Raises Unreadable."""
        if self.handle is None or _types(pa.schema(refresh(self.handle).schema())) != _types(
            pa.schema(Schema.from_arrow(columns))
        ):
            return None
        try:
            rows = pa.table(self.handle.to_pyarrow_table()).select(columns.names).cast(columns)
        except FAILURES as error:
            unreadable(self.address, error)
        return rows if rows.group_by(identity).aggregate([]).num_rows == rows.num_rows else None

    def write(self, rows: pa.Table, gone: pa.Table, stamp: Stamp) -> None:
        """Merge rows and deletions in one commit. Raises Conflict, Unwritable."""
        handle = self._table()
        number = handle.version() + 1
        with committing(handle):
            if rows.num_rows or gone.num_rows:
                _merge(handle, rows, gone, _properties(stamp, number))
            if handle.version() < number:
                handle.create_write_transaction(
                    [],
                    "append",
                    handle.schema(),
                    commit_properties=_properties(stamp, number),
                    post_commithook_properties=_HOOKS,
                )
        refresh(handle)
        if number % COMPACT_EVERY == 0:
            self._compact(stamp)

    def replace(self, rows: pa.Table, identity: Sequence[str], stamp: Stamp) -> None:
        """Replace all rows and columns in one commit; the first one creates the table. Raises Conflict, Unwritable.

        Rows are in the order of their identity, so that readers skip row groups by the statistics of its columns.
        """
        rows = rows.sort_by([(name, "ascending") for name in identity])
        if self.handle is not None:
            with committing(self.handle):
                write_deltalake(
                    self.handle,
                    rows,
                    mode="overwrite",
                    schema_mode="overwrite",
                    commit_properties=_properties(stamp, self.handle.version() + 1),
                    post_commithook_properties=_HOOKS,
                )
            refresh(self.handle)
            return
        try:
            write_deltalake(
                self.address,
                rows,
                configuration=_NO_STATISTICS,
                storage_options=self.options,
                commit_properties=_properties(stamp, 0),
            )
            self.handle = DeltaTable(self.address, storage_options=self.options)
        except FAILURES as error:
            raise Unwritable(f"cannot create table {self.address}: {reason(error)}") from error

    def close(self) -> None:
        """Forget the table."""
        self.handle = None

    def _compact(self, stamp: Stamp) -> None:
        """Merge the small files of the table's newest writes."""
        handle = self._table()
        with committing(handle):
            handle.optimize.compact(commit_properties=_properties(stamp, handle.version() + 1), post_commithook_properties=_HOOKS)
        refresh(handle)

    def _table(self) -> DeltaTable:
        assert self.handle is not None, "a sink replaces the content of a target before it writes changes"
        return self.handle


def _absolute(folder: Path, address: str) -> str:
    """The address of tables; a folder is relative to `folder`, and has no symbolic links."""
    return str((folder / Path(address).expanduser()).resolve()) if is_local(address) else address


def _overlap(*addresses: str) -> bool:
    """Whether two folders are the same, or one is in the other, so that a `VACUUM` of the outer one deletes its files."""
    outer, inner = sorted(f"{address}/" for address in addresses)
    return inner.startswith(outer)


def _properties(stamp: Stamp, number: int) -> CommitProperties:
    """The properties of a commit of this number, which delta-rs does not repeat."""
    metadata = {METADATA: stamp.text, PUBLICATION: str(stamp.publication)}
    transaction = Transaction(APPLICATION, number)
    return CommitProperties(custom_metadata=metadata, max_commit_retries=0, app_transactions=[transaction])


def _merge(handle: DeltaTable, rows: pa.Table, gone: pa.Table, properties: CommitProperties) -> None:
    kept = rows.append_column(_GONE, pa.array([False] * rows.num_rows, pa.bool_()))
    deleted = gone.append_column(_GONE, pa.array([True] * gone.num_rows, pa.bool_()))
    # Without the brackets delta-rs takes `a IS NOT DISTINCT FROM b AND c` for a comparison with `b AND c`.
    same = " AND ".join(f'(t."{name}" IS NOT DISTINCT FROM s."{name}")' for name in gone.column_names)
    columns = {f'"{name}"': f's."{name}"' for name in rows.column_names}
    merge = handle.merge(
        pa.concat_tables([kept, deleted], promote_options="default"),
        same,
        source_alias="s",
        target_alias="t",
        commit_properties=properties,
        post_commithook_properties=_HOOKS,
    )
    merge.when_matched_delete(f"s.{_GONE}").when_matched_update(columns).when_not_matched_insert(
        columns, f"NOT s.{_GONE}"
    ).execute()


def _types(schema: pa.Schema) -> dict[str, str]:
    """The types of columns by name, whatever their order."""
    return {field.name: str(field.type) for field in schema}
