"""The scratch folder: tasks leave files for each other there, and what is being dropped is recorded or moved there."""

from collections.abc import Iterator
from typing import Final
from uuid import uuid4

from infra.storage.local import Local
from infra.storage.storage import Storage
from ledger.delta.addresses import Tables
from ledger.delta.location import Location
from ledger.delta.vacuum import Freed

FOLDER: Final = "scratch"
_DROPS: Final = f"{FOLDER}/drops"
_LOG: Final = "/_delta_log/"
_FIRST_ENTRY: Final = f"{_LOG}{0:020}.json"


def scratch(tables: Tables) -> Location:
    """The folder. It belongs to the process that holds the lock of the views' tables."""
    return Location.of(tables, tables.below(FOLDER).root)


def clear(tables: Tables) -> Freed:
    """Delete everything in it, files of killed runs too, and finish what a killed run began to drop."""
    storage = tables.storage()
    for head in list(storage.list_after(_DROPS)):
        with storage.open(head.name) as file:
            _delete(storage, file.read().decode())
    files = list(storage.list_after(FOLDER))
    storage.delete_below(FOLDER)
    return Freed(len(files), sum(head.size for head in files))


def drop(tables: Tables, address: str) -> bool:
    """Drop a table, or all with an address within this one; False if there is none.

    A folder is renamed into scratch, so its tables exist whole or not at all. An object store renames nothing: tables that are
    dropped in part cannot be opened, and `clear` drops the rest.
    """
    storage, name = tables.storage(), tables.name(address)
    if isinstance(storage, Local):
        return storage.move(name, f"{FOLDER}/{uuid4().hex}")
    if next(iter(storage.list_after(name)), None) is None:
        return False
    record = f"{_DROPS}/{uuid4().hex}"
    storage.put_if_absent(record, name.encode())
    _delete(storage, name)
    storage.delete([record])
    return True


def _delete(storage: Storage, name: str) -> None:
    names = [head.name for head in storage.list_after(name)]
    for some in _in_turn(names):
        storage.delete(some)


def _in_turn(names: list[str]) -> Iterator[list[str]]:
    """The files of tables in the order of their deletion.

    Checkpoints go first, then each log's first entry: without both a log cannot be read. Deleted from its end, it would be an
    older version of its table.
    """
    logs = [name for name in names if _LOG in name]
    yield [name for name in logs if not name.endswith(".json")]
    yield [name for name in logs if name.endswith(_FIRST_ENTRY)]
    yield logs
    yield names
