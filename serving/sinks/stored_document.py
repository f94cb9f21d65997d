"""A document that one process at a time keeps in one row of a table.

Each change replaces the row in one commit, on the condition that nobody else has committed since the row was read. So a process
may be killed at any point, and of two processes the second is refused before it sends anything.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import RLock
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

import msgspec
import pyarrow as pa
from deltalake import DeltaTable

from tandem.infra import clock
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delete_table_files import vacuum
from tandem.ledger.delta.errors import Conflict, Unreadable, Unwritable
from tandem.ledger.delta.retries import commit_again

D = TypeVar("D")

_SCHEMA: Final = pa.schema([("document", pa.string())])
_SETTINGS: Final = {"delta.checkpointInterval": "100", "delta.logRetentionDuration": "interval 1 days"}


@dataclass
class StoredDocument(Generic[D]):
    """A document for the threads of one process; each subclass names its `kind` and its `folder` of the control tables."""

    kind: ClassVar[type]
    folder: ClassVar[str]

    document: D
    _handle: DeltaTable = field(repr=False)
    _lock: RLock = field(default_factory=RLock, init=False, repr=False)

    @classmethod
    def of(cls, tables: Tables, name: str) -> Self:
        """The document of this name, created empty if it does not exist. Raises Unreadable, Unwritable."""
        handle = delta_tables.create_table(tables, tables.control(cls.folder, name), _SCHEMA, _SETTINGS)
        return cls(_load(handle, cls.kind), handle)

    @classmethod
    def load(cls, tables: Tables, name: str) -> D | None:
        """The document as it is stored now; None if there was never any. Raises Unreadable."""
        handle = delta_tables.open_table(tables, tables.control(cls.folder, name))
        return None if handle is None else _load(handle, cls.kind)

    def rewrite(self, derive: Callable[[D], D]) -> None:
        """Store what `derive` makes of the stored document, also while another process runs, and delete all old files of it.

        The other process is refused at its next change, and continues from what is stored. Raises Unreadable, Unwritable.
        """

        def attempt(handle: DeltaTable) -> None:
            self._handle, self.document = handle, _load(handle, self.kind)
            self.change(derive)
            vacuum(delta_tables.reopen(handle), hours=0)

        commit_again(self._handle, attempt)

    def change(self, derive: Callable[[D], D]) -> D:
        """Store what `derive` makes of the document.

        Raises Conflict if another process has stored since, and Unwritable. Then the document is the stored one.
        """
        with self._lock:
            document = derive(self.document)
            if document == self.document:
                return document
            rows = pa.Table.from_pylist([{"document": msgspec.json.encode(document).decode()}], _SCHEMA)
            files = delta_tables.files(self._handle)
            try:
                delta_tables.conditional_replace(self._handle, files, [rows], at=clock.now())
            except (Conflict, Unwritable):
                self._handle = delta_tables.reopen(self._handle)
                self.document = _load(self._handle, self.kind)
                raise
            self._handle = delta_tables.refresh(self._handle)
            self.document = document
            return document


def _load(handle: DeltaTable, kind: type) -> Any:
    rows = [row for path in delta_tables.files(handle) for row in delta_tables.read_file(handle, path).to_pylist()]
    if not rows:
        return kind()
    try:
        return msgspec.json.decode(rows[0]["document"], type=kind)
    except msgspec.MsgspecError as error:
        raise Unreadable(f"table {handle.table_uri} has a document of another version: {error}") from error
