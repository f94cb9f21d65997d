"""The folders in which a speed layer and a hot tail write tables that are too large for their memory."""

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tandem.infra.settings import Settings
from tandem.infra.settings.spark_master import ON_THIS_HOST, kind
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location
from tandem.ledger.table_versions import Overflow
from tandem.speed.source.checkpoints import own_folder

_FOLDER: Final = "_look_ups"
"""Below a realtime table; a vacuum of the table leaves names with an underscore alone."""


def overflow_of_layer(settings: Settings, tables: Tables, realtime: str, scratch: Path) -> Overflow:
    """The folder of the writer of a realtime table: `scratch`, which is created, or below the table if tasks run on other hosts.

    Deletes files that earlier writers left below the table.
    """
    scratch.mkdir(parents=True)
    place = Location(str(scratch))
    if kind(settings.spark.master) not in ON_THIS_HOST:
        place = Location.of(tables, f"{realtime}/{_FOLDER}")
        place.storage().delete_below("")
    return Overflow(settings.speed.table_mb << 20, place, scratch)


def overflow_of_hot_tail(settings: Settings, closing: ExitStack) -> Overflow:
    """A folder of this process, which is deleted when `closing` is closed, or by a later process."""
    folder = own_folder(settings.folder)
    closing.callback(shutil.rmtree, folder, ignore_errors=True)
    return Overflow(settings.speed.table_mb << 20, Location(str(folder)), folder)
