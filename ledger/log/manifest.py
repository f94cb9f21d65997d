"""The manifest of an export, `manifest.json`: it lists every file, so that an import can check them before it opens one.

TandemError
    └── BadManifest    a manifest that belongs to no export, of another format, or that contradicts itself

`covered` is one interval for each partition of a source's `topics`, which are in log order. The source's `stretches` tile these
intervals: each is a range of one partition. Its records are in one Parquet file, in order; a stretch without records has no file.
"""

from collections.abc import Mapping
from datetime import datetime
from pathlib import PurePosixPath
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from tandem.views.errors import TandemError
from tandem.views.source.offset_ranges import Interval, Overlap, Partition, Ranges

FILE: Final = "manifest.json"
SCHEMAS: Final = "schemas.json"
"""Beside the manifest: schemas of registries that the records name, as `dump_schemas` writes them."""
FORMAT: Final = 1

_Count = Annotated[int, Meta(ge=0)]
_PARTS: Final = 2


class BadManifest(TandemError, code="manifest-invalid"):
    """The manifest is invalid; nothing was imported."""


class ExportedTopic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A topic, or one generation of it: its id, and its name when the archive first read it."""

    id: str
    name: str


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A Parquet file: its path in the folder, `<source>/<name>`, its size, and the SHA-256 of its bytes in hexadecimal."""

    path: str
    bytes: _Count
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class ExportedRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The records of `[start, end)` of a partition: the number of `rows`, in `file`, which is null where there are none."""

    topic: str
    partition: _Count
    start: _Count
    end: _Count
    rows: _Count
    file: File | None

    @property
    def place(self) -> Partition:
        """The partition, by topic id."""
        return self.topic, self.partition

    @property
    def ranges(self) -> Ranges:
        """The offsets of the stretch."""
        return Ranges.of({self.place: (self.start, self.end)})


class ExportedGap(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Offsets that the log had lost when they were archived, as tandem.views.source.offset_ranges.Ranges.to_json writes them."""

    reason: str
    ranges: dict[str, dict[str, list[tuple[int, int]]]]


class Exported(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The exported log of a source; `rows` is the number of all records, `erased` the offsets whose records were erased.

    If some of these are of records that the source keeps no longer, `until` is the greatest event time of them.
    """

    topics: tuple[ExportedTopic, ...]
    covered: dict[str, dict[str, list[tuple[int, int]]]]
    rows: _Count
    gaps: tuple[ExportedGap, ...]
    stretches: tuple[ExportedRange, ...]
    erased: dict[str, dict[str, list[tuple[int, int]]]] = {}
    until: Annotated[datetime, Meta(tz=True)] | None = None

    @property
    def ranges(self) -> Ranges:
        """The offsets that it covers."""
        return Ranges.from_json(self.covered)


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """An export: the exported log of each source; `schemas` is the SHA-256 of SCHEMAS, empty without that file."""

    format: Literal[1]
    sources: dict[str, Exported]
    schemas: Annotated[str, Meta(pattern="^([0-9a-f]{64})?$")] = ""


class _Version(msgspec.Struct):
    format: int


def write(manifest: Manifest) -> bytes:
    """The manifest as an indented JSON document."""
    return msgspec.json.format(msgspec.json.encode(manifest), indent=1) + b"\n"


def read(document: bytes, where: str) -> Manifest:
    """Parse and check a manifest; `where` names it in errors. Raises BadManifest."""
    try:
        _refuse_other_format(msgspec.json.decode(document, type=_Version).format)
        manifest = msgspec.json.decode(document, type=Manifest)
        paths: set[str] = set()
        for name, exported in manifest.sources.items():
            _refuse_contradictions(name, exported)
            for file in (stretch.file for stretch in exported.stretches if stretch.file is not None):
                _refuse_path(file.path, paths)
                paths.add(file.path)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadManifest(f"{where} is not the manifest of an export: {error}") from None
    except BadManifest as error:
        raise BadManifest(f"{where}: {error}") from None
    except (TandemError, ValueError) as error:
        raise BadManifest(f"{where} has an invalid range: {error}") from None
    return manifest


def written(ranges: Ranges) -> dict[str, dict[str, list[tuple[int, int]]]]:
    """Ranges in the form of the manifest."""
    found: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for (topic, number), intervals in ranges.intervals:
        found.setdefault(topic, {})[str(number)] = list(intervals)
    return found


def covered(ranges: Ranges) -> Mapping[Partition, Interval]:
    """The one interval of each partition. Raises BadManifest if a partition has several."""
    for (topic, number), intervals in ranges.intervals:
        if len(intervals) > 1:
            raise BadManifest(
                f"partition {number} of topic {topic} is covered with a gap from {intervals[0][1]} to {intervals[1][0]}"
            )
    return {partition: intervals[0] for partition, intervals in ranges.intervals}


def _refuse_other_format(version: int) -> None:
    if version != FORMAT:
        raise BadManifest(f"unknown format {version}; this version of tandem reads format {FORMAT}")


def _refuse_contradictions(name: str, exported: Exported) -> None:
    ids = [topic.id for topic in exported.topics]
    held = covered(exported.ranges)
    if len(set(ids)) < len(ids) or {topic for topic, _ in held} != set(ids):
        raise BadManifest(f"source {name!r} covers the topics {sorted({topic for topic, _ in held})}, but names {ids}")
    try:
        tiled = Ranges().union(*(stretch.ranges for stretch in exported.stretches))
    except Overlap as overlap:
        raise BadManifest(f"source {name!r} has stretches that overlap: {overlap}") from None
    if tiled != exported.ranges:
        raise BadManifest(f"the stretches of source {name!r} contain {tiled.to_json()}, but it covers {exported.covered}")
    for stretch in exported.stretches:
        if stretch.rows > stretch.end - stretch.start or (stretch.file is None) != (stretch.rows == 0):
            file = "no file" if stretch.file is None else f"the file {stretch.file.path}"
            where = f"[{stretch.start}, {stretch.end}) of partition {stretch.partition} of topic {stretch.topic}"
            raise BadManifest(f"source {name!r} has {stretch.rows} records and {file} for {where}")
    if (rows := sum(stretch.rows for stretch in exported.stretches)) != exported.rows:
        raise BadManifest(f"source {name!r} has {exported.rows} records, and {rows} in its stretches")
    for ranges in (*(gap.ranges for gap in exported.gaps), exported.erased):
        Ranges.from_json(ranges)


def _refuse_path(path: str, known: set[str]) -> None:
    parts = PurePosixPath(path).parts
    plain = len(parts) == _PARTS and "/".join(parts) == path and not {".", ".."} & set(parts)
    if not plain or "\\" in path or "\0" in path:
        raise BadManifest(f"file {path!r} is not a file of the folder; a path is <source>/<name>")
    if path in known:
        raise BadManifest(f"file {path!r} is named twice")
