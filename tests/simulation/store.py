"""Delta tables in memory, as delta-rs shows them to ledger/delta/delta_tables.py: versions, conditional commits, files, a vacuum.

Everything that would reach a disk asks the `io` of the simulation first, which may let others go first, kill the caller,
lose the commit or only its acknowledgement, or show an older version. What is decided on an old version and may be retried
is rebased in silence, as delta-rs does: that the ledger forbids it is for the ledger to say.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Literal

from deltalake import CommitProperties
from deltalake._internal import RemoveAction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction

from tandem.infra.storage.storage import Head
from tests.simulation.plain_tables import Rows, Stream, Upload

Fate = Literal["lands", "fails", "unacknowledged", "seems to conflict"]
"""What becomes of a commit: the last two land, and end in an error all the same."""

_HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Version:
    """A table at one moment: its active files by path, and the newest version of each application's transactions."""

    files: Mapping[str, AddAction] = field(default_factory=dict)
    transactions: Mapping[str, int] = field(default_factory=dict)
    adds: dict[bool, Rows] = field(default_factory=dict, compare=False)


@dataclass
class Stored:
    """All versions of a table, and its files with the time of writing or removal in milliseconds, be they active or not."""

    schema: object
    description: str
    configuration: Mapping[str, str]
    partition_by: Sequence[str]
    versions: list[Version] = field(default_factory=lambda: [Version()])
    since: dict[str, int] = field(default_factory=dict)
    content: dict[str, Rows] = field(default_factory=dict)


class Io:
    """What a simulation decides at each I/O call; this one decides nothing."""

    def now(self) -> int:
        """Milliseconds since 1970."""
        return 0

    def step(self, what: str) -> None:
        """Before anything is read or written."""

    def look(self, address: str, newest: int, *, least: int = -1) -> int:
        """The version of a table that a look finds, at or above `least`; -1 if it does not find the table yet."""
        return newest

    def fate(self) -> Fate:
        """Of a commit that could land."""
        return "lands"

    def overtakes(self) -> bool:
        """Whether a process that waits for a lease finds it unchanged for as long as it lasts."""
        return True

    def renews(self) -> bool:
        """Whether a holder of a lease renews it now."""
        return False

    def landed(self, address: str, version: int) -> None:
        """Right after a commit has landed, before anybody is told."""


@dataclass
class Store:
    """The tables by address."""

    io: Io = field(default_factory=Io)
    tables: dict[str, Stored] = field(default_factory=dict)
    names: int = 0

    def copy(self) -> "Store":
        """The same tables, to go on from."""
        tables = {
            address: replace(each, versions=[*each.versions], since={**each.since}, content={**each.content})
            for address, each in self.tables.items()
        }
        return Store(tables=tables, names=self.names)

    def write(self, address: str, rows: Rows, path: str | None = None) -> str:
        """Put a file beside the table, which is part of no version yet; its path."""
        stored = self.tables[address]
        if path is None:
            self.names += 1
            path = f"file-{self.names}"
        stored.content[path] = rows
        stored.since[path] = self.io.now()
        return path

    def discard(self, folder: str) -> bool:
        """Remove all tables below a folder at one stroke; False if there are none."""
        gone = [address for address in self.tables if address == folder or address.startswith(f"{folder}/")]
        for address in gone:
            del self.tables[address]
        return bool(gone)


class Handles:
    """The store that handles are opened in now: what tandem.ledger.delta.delta_tables calls DeltaTable takes an address only."""

    store = Store()


class DeltaTable:
    """A handle: the table at the version that it was opened or brought to."""

    def __init__(self, table_uri: str, version: int | None = None, storage_options: Mapping[str, str] | None = None) -> None:
        self._store, self.table_uri, self._storage_options = Handles.store, table_uri, storage_options
        self._store.io.step(f"open {table_uri}")
        if table_uri not in self._store.tables:
            raise TableNotFoundError(table_uri)
        self._at = self._store.io.look(table_uri, len(self._stored.versions) - 1) if version is None else version
        if self._at < 0:
            raise TableNotFoundError(table_uri)

    @classmethod
    def create(
        cls,
        table_uri: str,
        schema: object,
        *,
        description: str,
        partition_by: Sequence[str] | None,
        configuration: Mapping[str, str],
        storage_options: Mapping[str, str],
        commit_properties: CommitProperties,
    ) -> None:
        store = Handles.store
        store.io.step(f"create {table_uri}")
        if table_uri in store.tables:
            raise DeltaError("a Delta table already exists there")
        fate = store.io.fate()
        if fate != "fails":
            store.tables[table_uri] = Stored(schema, description, configuration, partition_by or [])
            store.io.landed(table_uri, 0)
        _tell(fate)

    @property
    def _stored(self) -> Stored:
        if self.table_uri not in self._store.tables:
            raise DeltaError("the table is gone")
        return self._store.tables[self.table_uri]

    @property
    def _version(self) -> Version:
        versions = self._stored.versions
        if self._at >= len(versions):
            raise DeltaError("the version is gone")
        return versions[self._at]

    def version(self) -> int:
        return self._at

    def schema(self) -> object:
        return self._stored.schema

    def metadata(self) -> Any:
        stored = self._stored
        return SimpleNamespace(
            description=stored.description, partition_columns=stored.partition_by, configuration=stored.configuration
        )

    def transaction_version(self, application: str) -> int | None:
        return self._version.transactions.get(application)

    def update_incremental(self) -> None:
        self._store.io.step(f"refresh {self.table_uri}")
        self._at = self._store.io.look(self.table_uri, len(self._stored.versions) - 1, least=self._at)

    def get_add_actions(self, *, flatten: bool = False) -> Rows:
        version = self._version
        if flatten not in version.adds:
            version.adds[flatten] = Rows([_told(action, flatten=flatten) for action in version.files.values()], _ADDS)
        return version.adds[flatten]

    def create_write_transaction(
        self,
        actions: Iterable[AddAction | RemoveAction],
        mode: str,
        schema: object,
        *,
        partition_by: Sequence[str],
        commit_properties: CommitProperties,
        post_commithook_properties: object,
    ) -> None:
        self._commit(list(actions), commit_properties)

    def create_checkpoint(self) -> None:
        self._store.io.step(f"checkpoint {self.table_uri}")

    def cleanup_metadata(self) -> None:
        self._store.io.step(f"clean {self.table_uri}")

    def vacuum(self, *, retention_hours: int, dry_run: bool, enforce_retention_duration: bool, full: bool) -> list[str]:
        self._store.io.step(f"vacuum {self.table_uri}")
        before = self._store.io.now() - retention_hours * _HOUR_MS
        return [path for path, since in self._stored.since.items() if since < before and path not in self._version.files]

    def _commit(self, actions: list[AddAction | RemoveAction], properties: CommitProperties) -> int:
        """The version that it became."""
        self._store.io.step(f"commit to {self.table_uri}")
        stored = self._stored
        added = {action.path: action for action in actions if isinstance(action, AddAction)}
        removed = [action.path for action in actions if not isinstance(action, AddAction)]
        newest = stored.versions[-1]
        rebase = properties.max_commit_retries != 0 and all(path in newest.files for path in removed)
        if self._at != len(stored.versions) - 1 and not rebase:
            raise CommitFailedError("a newer version is there")
        fate = self._store.io.fate()
        if fate != "fails":
            assert added.keys() <= stored.content.keys(), "data before the commit that names it"
            files = {path: action for path, action in newest.files.items() if path not in removed} | added
            transactions = {each.app_id: each.version for each in properties.app_transactions or ()}
            stored.versions.append(Version(files, {**newest.transactions, **transactions}))
            stored.since |= dict.fromkeys(removed, self._store.io.now())
            landed = len(stored.versions) - 1
            self._store.io.landed(self.table_uri, landed)
        _tell(fate)
        return landed


def write_deltalake(
    handle: DeltaTable,
    rows: Rows,
    *,
    mode: str,
    commit_properties: CommitProperties,
    post_commithook_properties: object,
    writer_properties: object,
) -> None:
    store = handle._store
    store.io.step(f"write to {handle.table_uri}")
    path = store.write(handle.table_uri, rows)
    bounded = handle._stored.configuration.get("delta.dataSkippingStatsColumns", "")
    values = rows[bounded].to_pylist() if bounded else []
    bounds = {"minValues": {bounded: min(values)}, "maxValues": {bounded: max(values)}} if bounded else {}
    action = AddAction(path, rows.num_rows, {}, store.io.now(), True, json.dumps({"numRecords": rows.num_rows, **bounds}))
    handle._at = handle._commit([action], commit_properties)


@dataclass(frozen=True)
class Files:
    """The files beside one table: what the ledger asks of `tandem.infra.storage`."""

    store: Store
    address: str

    @classmethod
    def of(cls, handle: DeltaTable) -> "Files":
        return cls(handle._store, handle.table_uri)

    def open(self, name: str) -> Stream:
        self.store.io.step(f"read {self.address}/{name}")
        stored = self.store.tables.get(self.address)
        if stored is None or name not in stored.content:
            raise FileNotFoundError(name)
        return Stream(stored.content[name])

    def create(self, name: str) -> Upload:
        def keep(rows: Rows) -> None:
            self.store.write(self.address, rows, name)
            self.store.io.step(f"list {self.address}")  # between a file that is whole and the commit that names it

        self.store.io.step(f"write {self.address}")
        return Upload(keep)

    def head(self, name: str) -> Head | None:
        self.store.io.step(f"look at {self.address}/{name}")
        stored = self.store.tables[self.address]
        content = stored.content.get(name)
        return None if content is None else Head(name, content.num_rows, stored.since[name], "")

    def delete(self, names: Iterable[str]) -> None:
        self.store.io.step(f"list {self.address}")  # between the looks at files and their deletion
        for name in names:
            self.store.io.step(f"delete {self.address}/{name}")
            stored = self.store.tables[self.address]
            stored.content.pop(name, None)
            stored.since.pop(name, None)


_ADDS = ("path", "size_bytes", "num_records", "partition", "partition.batch_version", "max.number")


def _told(action: AddAction, *, flatten: bool) -> dict[str, Any]:
    stats = json.loads(action.stats)
    told = {"path": action.path, "size_bytes": action.size, "num_records": stats["numRecords"]}
    if not flatten:
        return {**told, "partition": action.partition_values}
    told |= {f"partition.{name}": value for name, value in action.partition_values.items()}
    for side in ("min", "max"):
        told |= {f"{side}.{name}": value for name, value in stats.get(f"{side}Values", {}).items()}
    return told


def _tell(fate: Fate) -> None:
    if fate in ("fails", "unacknowledged"):
        raise DeltaError("the disk is full, or the connection was lost")
    if fate == "seems to conflict":
        raise CommitFailedError("the version is there: our own, of an attempt that the storage repeated")
