"""The folder in which tasks leave files for each other, and in which what is to be deleted vanishes at one stroke."""

from pathlib import Path
from typing import Final
from uuid import uuid4

from pyarrow.fs import FileSelector, FileType

from ledger.delta.addresses import Tables
from ledger.delta.delta_tables import Freed
from ledger.delta.location import Place

_FOLDER: Final = "scratch"


def scratch(tables: Tables) -> Place:
    """The folder. It belongs to whoever holds the lock of the views' tables."""
    return Place.of(tables, f"{tables.root.rstrip('/')}/{_FOLDER}")


def clear(tables: Tables) -> Freed:
    """Delete all that is in it, also what a killed run left."""
    places = scratch(tables).file_system()
    if places.get_file_info(["."])[0].type != FileType.Directory:
        return Freed()
    files = [info for info in places.get_file_info(FileSelector(".", recursive=True)) if info.type == FileType.File]
    places.delete_dir_contents(".", accept_root_dir=True)
    return Freed(len(files), sum(info.size or 0 for info in files))


def discard(tables: Tables, folder: Path) -> bool:
    """Move a folder of tables there, so that it is there whole or not at all; False if there is none."""
    if not folder.is_dir():
        return False
    place = Path(scratch(tables).folder)
    place.mkdir(parents=True, exist_ok=True)
    folder.rename(place / uuid4().hex)
    return True
