"""The scratch folder: tasks leave files for each other there, and a dropped table moves there before it is deleted."""

from typing import Final
from uuid import uuid4

from infra.storage.local import Local
from ledger.delta.addresses import Tables
from ledger.delta.location import Location
from ledger.delta.vacuum import Freed

FOLDER: Final = "scratch"


def scratch(tables: Tables) -> Location:
    """The folder. It belongs to the process that holds the lock of the views' tables."""
    return Location(tables.below(FOLDER).root)


def clear(tables: Tables) -> Freed:
    """Delete everything in it, files of killed runs too."""
    storage = tables.storage()
    files = list(storage.list_after(FOLDER))
    storage.delete_below(FOLDER)
    return Freed(len(files), sum(head.size for head in files))


def drop(tables: Tables, address: str) -> bool:
    """Drop a table, or all with an address within this one, by one rename into scratch, so that they exist whole or not at all.

    False if there is none. For a local root: object stores rename nothing.
    """
    return Local(tables.root).move(tables.name(address), f"{FOLDER}/{uuid4().hex}")
