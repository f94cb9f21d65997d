"""How much there is to read in files, for a share of it that is done."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tandem.cli.records.input_stream import can_be_read_twice
from tandem.cli.records.parquet_values import SUFFIXES

_PACKED: Final = (".gz", ".zst", *SUFFIXES)


def bytes_to_read(files: Sequence[Path]) -> int | None:
    """The bytes of all lines; None if a file is a pipe or packed, so that they are not known before they are read."""
    if not all(can_be_read_twice(file) and file.suffix not in _PACKED for file in files):
        return None
    return sum(file.stat().st_size for file in files)
