"""A table that Spark reads: a folder of Parquet, CSV or JSON files, or a Delta table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType

from tandem.batch.adopt.csv_quotes import quote_faults
from tandem.views.errors import TandemError

Kind = Literal["delta", "parquet", "csv", "json", "database"]
_SUFFIXES: Final[Mapping[str, Kind]] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
}
_RFC_4180: Final = {"header": "true", "enforceSchema": "false", "escape": '"', "multiLine": "true"}
"""Texts in quotes may have line ends and quotes. With enforceSchema Spark would ignore the headers of all files but one."""
NO_FOLDER: Final = Path()
"""The folder of a table that has none."""
CORRUPT: Final = "_corrupt_record"
"""The column with the text of a line that is not JSON, or of a row of CSV of another width than the header."""


class NotAdopted(TandemError, code="adopt-impossible"):
    """The table cannot become a part of the source's log; nothing of it is visible."""


@dataclass(frozen=True)
class HistoryTable:
    """A table at one version: the size and the time of change of each of its files, by path in the folder."""

    path: Path
    kind: Kind
    version: str
    files: Mapping[str, str] = field(hash=False)

    @property
    def name(self) -> str:
        """The name in messages and in the journal of adoptions."""
        return str(self.path)

    @classmethod
    def of(cls, folder: Path | str) -> "HistoryTable":
        """The newest version of the table in a folder of this machine. Raises NotAdopted."""
        path = Path(folder).absolute()
        if not path.is_dir():
            raise NotAdopted(f"{path} is not a folder; give a folder of Parquet, CSV or JSON files, or of a Delta table")
        if (path / "_delta_log").is_dir():
            return cls._delta(path)
        names = [(file, file.relative_to(path)) for file in sorted(path.rglob("*")) if file.is_file()]
        data = [(file, name) for file, name in names if not any(part.startswith(("_", ".")) for part in name.parts)]
        kinds = {_SUFFIXES.get(file.suffix.lower()) for file, _ in data}
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind is None:
            raise NotAdopted(f"{path} needs files of one kind, with a suffix of: {', '.join(_SUFFIXES)}")
        return cls(path, kind, "", {str(name): f"{file.stat().st_size} {file.stat().st_mtime_ns}" for file, name in data})

    @classmethod
    def _delta(cls, path: Path) -> "HistoryTable":
        try:
            table = DeltaTable(str(path))
            actions = pa.table(table.get_add_actions(flatten=True))
        except (DeltaError, TableNotFoundError, OSError) as error:
            raise NotAdopted(f"{path} cannot be read as a Delta table: {str(error).splitlines()[0]}") from error
        sizes = zip(actions["path"].to_pylist(), actions["size_bytes"].to_pylist(), strict=True)
        return cls(path, "delta", str(table.version()), {name: str(size) for name, size in sizes})

    def check(self) -> None:
        """Raise NotAdopted if what was read of the table is not what `files` says."""

    def newer_files(self, before: Mapping[str, str]) -> list[str]:
        """The files that were not adopted `before`. Raises NotAdopted if one of those is gone or is another."""
        changed = sorted(name for name, content in before.items() if self.files.get(name) != content)
        if changed:
            raise NotAdopted(
                f"table {self.name} changed its past: {len(changed)} files that were adopted are gone or are others, such as "
                f"{changed[0]}; nothing was adopted; put them back, or begin with a new state folder"
            )
        return sorted(self.files.keys() - before.keys())

    def size(self, files: Sequence[str]) -> int:
        """The bytes of these files."""
        return sum(int(self.files[name].partition(" ")[0]) for name in files)

    def rows(self, session: SparkSession, files: Sequence[str]) -> DataFrame:
        """The rows of these files, with the path of a row's file as `_file`.

        Raises NotAdopted for a file of CSV with a wrong quote.
        """
        reader = session.read.format(self.kind).option("basePath", str(self.path))
        paths = [str(self.path / name) for name in files]
        if self.kind == "csv":
            for path, lines in quote_faults(session, paths).items():
                raise NotAdopted(
                    f"{path}: a text in quotes that begins in {lines} has no end, or goes on after it; the rows after it "
                    "would be read as a part of it; write a quote within a text in quotes twice, and end the text"
                )
            reader = reader.options(**_RFC_4180).option("columnNameOfCorruptRecord", CORRUPT)
            # Without a column for them in a stated schema Spark cuts and fills rows of another width than the header.
            frame = reader.schema(reader.load(paths).schema.add(CORRUPT, StringType())).load(paths)
        elif self.kind == "json":
            frame = reader.option("prefersDecimal", "true").option("columnNameOfCorruptRecord", CORRUPT).load(paths)
        elif self.kind == "parquet":
            # Else one file's columns are those of all: values of other columns would be lost.
            frame = reader.option("mergeSchema", "true").load(paths)
        else:
            frame = session.read.format("delta").option("versionAsOf", self.version).load(str(self.path))
        frame = frame.withColumn("_file", sql.col("_metadata.file_path"))
        if self.kind != "delta" or len(files) == len(self.files):
            return frame
        # The path of a folder may be escaped; the name of a file of Delta has nothing to escape.
        return frame.where(sql.substring_index("_file", "/", -1).isin([name.rpartition("/")[2] for name in files]))
