"""The scratch folder: tasks leave files for each other there, and what is being dropped is recorded or moved there.

On an object store each holder of the lease of the views' tables has a part of its own, named by its token, and deletes only the
parts of earlier holders and its own. So a holder that lost its lease, and goes on, deletes no file of the next one.
"""

from collections.abc import Iterator
from typing import Final
from uuid import uuid4

from tandem.infra import clock
from tandem.infra.storage.local import Local
from tandem.infra.storage.storage import Storage
from tandem.ledger.delta import delete_table_files, delta_tables, retries
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delete_table_files import Freed
from tandem.ledger.delta.location import Location
from tandem.ledger.delta.one_writer.refuse_other_writers import Unclaimed
from tandem.ledger.log.archive_runs import APP_ID

FOLDER: Final = "scratch"
_DROPS: Final = f"{FOLDER}/drops"
_REALTIME: Final = "realtime/"
_LOG: Final = "/_delta_log/"
_FIRST_ENTRY: Final = f"{_LOG}{0:020}.json"


def scratch(tables: Tables) -> Location:
    """The folder. It belongs to the process that holds the lock of the views' tables."""
    return Location.of(tables, tables.below(_own(tables)).root)


def tables_in(tables: Tables, name: str) -> Tables:
    """Tables of a run's own in the folder."""
    return tables.below(f"{_own(tables)}/{name}")


def clear(tables: Tables) -> Freed:
    """Delete everything in it, files of killed runs too, and finish what a killed run began to drop."""
    storage = tables.storage()
    if tables.local:
        files = list(storage.list_after(FOLDER))
        storage.delete_below(FOLDER)
        return Freed(len(files), sum(head.size for head in files))
    for head in list(storage.list_after(_DROPS)):
        with storage.open(head.name) as file:
            _delete(storage, file.read().decode())
        storage.delete([head.name])
    files = [head for head in storage.list_after(FOLDER) if _ended(head.name, _token(tables))]
    storage.delete(head.name for head in files)
    return Freed(len(files), sum(head.size for head in files))


def drop(tables: Tables, address: str) -> bool:
    """Drop a table, or all with an address within this one; False if there is none.

    A folder is renamed into scratch, so its tables exist whole or not at all. An object store renames nothing, and a deletion
    that was paused would meet a table that was created again at the address. So its tables become empty by one commit each, which
    a later holder fences, and lose their files. Only realtime tables are deleted, whose addresses are never used again; `clear`
    drops the rest of what is dropped in part.
    """
    storage, name = tables.storage(), tables.name(address)
    if isinstance(storage, Local):
        return storage.move(name, f"{FOLDER}/{uuid4().hex}")
    names = [head.name for head in storage.list_after(name)]
    if not name.startswith(_REALTIME):
        emptied = [empty(tables, tables.address(one), _files_beside(names, one)) for one in _tables(names)]
        return any(emptied)
    if not names:
        return False
    record = f"{_DROPS}/{uuid4().hex}"
    storage.put_if_absent(record, name.encode())
    _delete(storage, name)
    storage.delete([record])
    return True


def empty(tables: Tables, address: str, files: int) -> bool:
    """Remove all rows of a table and the number of its last archive run, then delete its files; False if that is done already.

    `files` is the number of its data files on the disk. Raises Fenced, Unwritable.
    """
    handle = delta_tables.open_table(tables, address)
    if handle is None:
        return False
    active = list(delta_tables.files(handle))
    if active or handle.transaction_version(APP_ID):
        lease = tables.lease(address)
        handle = retries.claim(handle, lease)
        active = list(delta_tables.files(handle))
        at = clock.now()
        delta_tables.conditional_exchange(handle, active, [], at=at, lease=lease, transactions={APP_ID: 0})
        delete_table_files.checkpoint(delta_tables.refresh(handle))
    elif not files:
        return False
    delete_table_files.vacuum(handle, hours=0, lease=tables.lease(address))
    return True


def _own(tables: Tables) -> str:
    return FOLDER if tables.local else f"{FOLDER}/{_token(tables)}"


def _token(tables: Tables) -> int:
    lease = tables.leases.get("views")
    if lease is None:
        raise Unclaimed(f"the scratch folder of {tables.root} was to be used without the lease 'views'")
    return lease.token


def _ended(name: str, token: int) -> bool:
    """Whether a scratch file is of this holder or an earlier one."""
    part = name.split("/")[1]
    return not part.isdigit() or int(part) <= token


def _tables(names: list[str]) -> list[str]:
    """The tables among these files, by name."""
    return list(dict.fromkeys(name.partition(_LOG)[0] for name in names if _LOG in name))


def _files_beside(names: list[str], table: str) -> int:
    return sum(name.startswith(f"{table}/") and _LOG not in name for name in names)


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
