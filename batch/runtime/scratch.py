"""The scratch folder: tasks leave files for each other there, and a dropped table moves there before it is deleted."""

from pathlib import Path
from typing import Final
from uuid import uuid4

from pyarrow.fs import FileSelector, FileType

from ledger.delta.addresses import Tables
from ledger.delta.location import Location
from ledger.delta.vacuum import Freed

FOLDER: Final = "scratch"


def scratch(tables: Tables) -> Location:
    """The folder. It belongs to the process that holds the lock of the views' tables."""
    return Location.of(tables, f"{tables.root.rstrip('/')}/{FOLDER}")


def clear(tables: Tables) -> Freed:
    """Delete everything in it, files of killed runs too."""
    places = scratch(tables).file_system()
    if places.get_file_info(["."])[0].type != FileType.Directory:
        return Freed()
    files = [info for info in places.get_file_info(FileSelector(".", recursive=True)) if info.type == FileType.File]
    places.delete_dir_contents(".", accept_root_dir=True)
    return Freed(len(files), sum(info.size or 0 for info in files))


def drop(tables: Tables, folder: Path) -> bool:
    """Drop a folder of tables by one rename into scratch, so that it exists whole or not at all. False if there is none."""
    if not folder.is_dir():
        return False
    place = Path(scratch(tables).folder)
    place.mkdir(parents=True, exist_ok=True)
    folder.rename(place / uuid4().hex)
    return True
