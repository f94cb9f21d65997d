"""Data sets as OpenLineage names them: topics of a broker, Delta tables, and views."""

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse

import pyarrow as pa

from tandem.views.project.column_lineage import Lineage
from tandem.views.source.offset_ranges import Ranges


@dataclass(frozen=True)
class LineageField:
    """A column: its name and type."""

    name: str
    type: str


@dataclass(frozen=True)
class DerivedColumns:
    """How the columns of a data set are computed from those of another."""

    of: "DataSet"
    lineage: Lineage


@dataclass(frozen=True)
class DataSet:
    """A data set that a run reads or writes.

    `version` is that of a Delta table, or the number of a publication; `positions` are the offsets that the run read or wrote of
    a log, by topic id.
    """

    namespace: str
    name: str
    fields: tuple[LineageField, ...] = ()
    version: str | None = None
    positions: Ranges | None = None
    made: DerivedColumns | None = None


@dataclass(frozen=True)
class DataSets:
    """The data sets that a run reads and writes."""

    inputs: tuple[DataSet, ...] = ()
    outputs: tuple[DataSet, ...] = ()


def fields(schema: pa.Schema) -> tuple[LineageField, ...]:
    """The columns of an Arrow schema."""
    return tuple(LineageField(field.name, str(field.type)) for field in schema)


def topic(bootstrap: str, name: str, schema: pa.Schema, positions: Ranges | None = None) -> DataSet:
    """A topic, whose values hold events with these fields, named by the first of its brokers."""
    return DataSet(f"kafka://{bootstrap.partition(',')[0].strip()}", name, fields(schema), positions=positions)


def table(address: str, schema: pa.Schema, version: int | None, positions: Ranges | None = None) -> DataSet:
    """A Delta table in a folder or at a URI; without a version, a table that does not exist yet."""
    at = urlparse(address)
    known = (fields(schema), None if version is None else str(version), positions)
    if len(at.scheme) < 2:
        return DataSet("file", str(Path(address)), *known)
    return DataSet(f"{at.scheme}://{at.netloc}", at.path.lstrip("/"), *known)


def view(namespace: str, name: str, made: DerivedColumns, version: int | None = None) -> DataSet:
    """A view as readers query it, of which batch and speed each compute a part; its version is a publication's number."""
    columns = tuple(LineageField(column.name, column.type) for column in made.lineage.columns)
    return DataSet(namespace, name, columns, None if version is None else str(version), made=made)
