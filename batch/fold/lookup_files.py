"""The versions of tables in scratch files: the driver writes them once, and tasks that fold views with look-ups read them."""

from collections.abc import Mapping
from functools import lru_cache

import pyarrow as pa

from tandem.batch.runtime.parquet_writer import TableFile
from tandem.ledger.delta.location import Location, opened
from tandem.views.kernel import kernel
from tandem.views.view import View


def write_versions(scratch: Location, versions: Mapping[str, pa.Table]) -> dict[str, str]:
    """Write versions by name of their view. Returns the files' paths, an empty path for a table without versions."""
    paths = {}
    for name, table in versions.items():
        with TableFile(scratch, table.schema) as file:
            if table.num_rows:
                file.write(table)
        paths[name] = "" if file.written is None else file.written.path
    return paths


def load_versions(scratch: Location, paths: Mapping[str, str], views: Mapping[str, View]) -> dict[str, pa.Table]:
    """The versions that `write_versions` wrote; a process reads each file once."""
    return {name: _file_rows(scratch, path) if path else kernel.no_versions(views[name]) for name, path in paths.items()}


@lru_cache(maxsize=4)
def _file_rows(scratch: Location, path: str) -> pa.Table:
    with opened(scratch, path, verified=True) as file:
        return file.read(use_threads=False)
