"""The views, events tables and quarantines of a project as Spark DataFrames, all at one snapshot.

    shop = snapshot("my_shop")
    shop.view("sales").join(shop.events("orders"), "city")

* A view's rows are the answer of `tandem query` at the snapshot.
* delta-spark reads events and rejects from their Delta tables, below the position up to which the views count, as far as the
  archive has them.
* Spark refuses writes to their names; it cannot refuse writes to the paths of tables.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial, reduce
from operator import and_, or_
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, functions

from tandem.infra import settings as settings_of_project
from tandem.infra.settings import Settings
from tandem.infra.spark.errors import SPARK_ERRORS, sentence
from tandem.infra.spark.session import get_or_create_session
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.delta_tables import open_table
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import LOG_START, Position, lower
from tandem.ledger.publish.if_promoted import IfPromoted
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import ReadFailed
from tandem.serving.read.provenance import Layer
from tandem.serving.read.selection import BadSelection
from tandem.serving.read.snapshot import provenance_of
from tandem.serving.read.snapshot_follower import live_at
from tandem.serving.spark import frame_of, schema_of
from tandem.views.errors import TandemError, listed
from tandem.views.exactness import Exactness
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint
from tandem.views.source.source import POSITION_SCHEMA, Source, events_schema, rejects_schema

_EVENT_PLACE: Final = ("_topic_id", "_partition", "_offset")
_REJECT_PLACE: Final = ("topic_id", "partition", "offset")
_CONF: Final = {"spark.sql.shuffle.partitions": "64"}
"""A platform session does not join or group in Spark; a person's does. Adaptive execution coalesces small partitions."""

assert set(_EVENT_PLACE) < set(POSITION_SCHEMA.names)


class UnknownSource(TandemError, code="source-unknown"):
    """A source that the release does not have."""


@dataclass(frozen=True)
class Frames:
    """A project at one snapshot: a publication, and the realtime commits beyond its cut.

    A past publication (`reader.publication`) has only the events below its cut. A release that is not live has the state that its
    promotion would publish; `publication` is live meanwhile.
    """

    session: SparkSession = field(repr=False)
    reader: Reader = field(repr=False)
    archived: Mapping[str, Position] = field(repr=False)

    @property
    def publication(self) -> int:
        """The number of the publication."""
        return self.reader.snapshot().publication.number

    @property
    def views(self) -> tuple[str, ...]:
        """The names of the release's views."""
        return tuple(self.reader.project().every_view)

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the release's sources, each with an events table and a quarantine."""
        return tuple(self.reader.project().sources)

    def view(self, name: str, *, layer: Layer | None = None, at: datetime | None = None) -> DataFrame:
        """The answers of a view, all keys and windows, in no order; `layer` is by default "merged", of the past "batch".

        `at` gives the versions of a table that were valid then. Spark's decimals have 38 digits: a total that needs more fails
        the job. Raises UnknownView, BadSelection for a layer that a past publication does not have or a time of a view that is
        not a table, and ReadFailed if the view cannot be answered.
        """
        counted = self._counted(layer)
        definition = self.reader.view(name)
        return frame_of(self.session, self.reader.tables, self.reader.snapshot(), definition, layer=counted, at=at)

    def exactness(self, name: str, *, layer: Layer | None = None) -> Exactness:
        """How exact the values of `view(name, layer=layer)` are: the reasons of any row, and those of each column.

        The DataFrame has no column with these reasons. Raises UnknownView, and BadSelection for a layer that a past publication
        does not have.
        """
        counted = self._counted(layer)
        return provenance_of(self.reader.snapshot(), self.reader.view(name), counted, {}).exactness

    def events(self, source: str) -> DataFrame:
        """The decoded events of a source, duplicates too, below `position(source)`: their fields and their places in the log.

        Raises UnknownSource, and ReadFailed where the archive no longer has what the publication counts.
        """
        known = self._source(source)
        address = self.reader.tables.events(source, decoder_fingerprint(known))
        return self._below(known, address, events_schema(known), _EVENT_PLACE)

    def quarantine(self, source: str) -> DataFrame:
        """The rejects of a source below `position(source)`: place, timestamp, reason, first bytes.

        Where the events of a list are rejected alone, `index` is the event's; null where the whole record is rejected.

        Raises as `events`.
        """
        known = self._source(source)
        address = self.reader.tables.quarantine(source, decoder_fingerprint(known))
        return self._below(known, address, rejects_schema(known), _REJECT_PLACE)

    def position(self, source: str) -> Position:
        """The end of `events` and `quarantine`: the position of the views' answers, or the archive's end if that is less."""
        return lower(self.reader.snapshot().tails[self._source(source).name].end, self.archived[source])

    def register(self) -> dict[str, ReadFailed | None]:
        """Register all of them as temporary views of the session, for `session.sql`; returns their names, each with the reason if
        it cannot be read.

        The names are those of the views, `SOURCE_events` and `SOURCE_quarantine`. If a view has such a name, the name means the
        view.
        """
        named: dict[str, tuple[str, Callable[[], DataFrame]]] = {}
        for view in self.views:
            named[view.casefold()] = view, partial(self.view, view)
        for source in self.sources:
            for kind, read in (("events", self.events), ("quarantine", self.quarantine)):
                name = f"{source}_{kind}"
                named.setdefault(name.casefold(), (name, partial(read, source)))
        return {name: self._registered(name, read) for name, read in named.values()}

    def _counted(self, layer: Layer | None) -> Layer:
        counted: Layer = layer or ("merged" if self.reader.publication is None else "batch")
        self.reader.refuse_other_than_batch(counted)
        return counted

    def _registered(self, name: str, read: Callable[[], DataFrame]) -> ReadFailed | None:
        try:
            read().createOrReplaceTempView(f"`{name}`")
        except ReadFailed as error:
            return error
        return None

    def _source(self, name: str) -> Source:
        sources = self.reader.project().sources
        if name not in sources:
            raise UnknownSource(f"no source {name!r} is published; sources: {listed(name, sources)}")
        return sources[name]

    def _below(self, source: Source, address: str, schema: pa.Schema, place: tuple[str, str, str]) -> DataFrame:
        """The rows of a table below the position; tables only grow, so they are the same at every later version."""
        end, cut = self.position(source.name), self.reader.snapshot().publication.cut(source.name)
        there = open_table(self.reader.tables, address) is not None
        if not cut.at_or_below(self.archived[source.name]) or (end != LOG_START and not there):
            raise ReadFailed(
                f"publication {self.publication} counts source {source.name!r} up to {cut}, but the archive is decoded up to "
                f"{self.archived[source.name] if there else LOG_START}; `tandem archive` decodes it for the live release"
            )
        if not there:
            return self.session.createDataFrame([], schema_of(schema))
        return _opened(self.session, address).select(*schema.names).where(_before(end, place))


def _opened(session: SparkSession, address: str) -> DataFrame:
    """A table by delta-spark, which needs Hadoop's file system for the address of an object store. Raises ReadFailed."""
    try:
        # Hadoop's client of S3 has a scheme of its own.
        return session.read.format("delta").load(re.sub("^s3://", "s3a://", address))
    except SPARK_ERRORS as error:
        scheme, separator, _ = address.partition("://")
        if not separator:
            raise
        raise ReadFailed(
            f"Spark cannot open {address}: {sentence(error)}; give its session Hadoop's file system for {scheme} "
            "(docs/object-store.md)"
        ) from error


def _before(end: Position, place: tuple[str, str, str]) -> Column:
    """The condition that a row is below a position."""
    topic, partition, offset = map(functions.col, place)
    ranges = (reduce(and_, (topic == id_, partition == number, offset < below)) for (id_, number), below in sorted(end.items()))
    return reduce(or_, ranges, functions.lit(False))


def snapshot(
    project: str | Path,
    *,
    publication: int | None = None,
    as_of: datetime | None = None,
    release: int | None = None,
    session: SparkSession | None = None,
) -> Frames:
    """The current publication of a project, or a retained past one below its cut, or a release before it is live.

    `publication` is its number, or `as_of` a time at which it was live. `release` is a ready or standing release, which answers
    as if it were promoted now. `session` is a session whose workers can import Tandem;
    by default that of the project is started. Raises BadSelection, and ReadFailed if nothing can be read.
    """
    found = settings_of_project.load(Path(project), os.environ)
    reader = pinned(found, publication=publication, as_of=as_of, release=release)
    return frames(session or started(found, os.environ), reader)


def session(project: str | Path) -> SparkSession:
    """This process's Spark session with Delta, by the settings of a project; started if there is none. Raises TandemError."""
    return started(settings_of_project.load(Path(project), os.environ), os.environ)


def pinned(settings: Settings, *, publication: int | None, as_of: datetime | None, release: int | None = None) -> Reader:
    """A reader that is pinned to the snapshot, without Spark. Raises BadSelection, ReadFailed."""
    if publication is not None and as_of is not None:
        raise BadSelection("publication and as_of cannot be combined")
    if release is not None and (publication, as_of) != (None, None):
        raise BadSelection("release cannot be combined with publication or as_of")
    if as_of is not None and as_of.tzinfo is None:
        raise BadSelection(f"as_of={as_of!r} has no time zone; add one, such as UTC")
    tables = Tables.of(settings)
    number = publication if as_of is None else live_at(tables, as_of.astimezone(UTC))
    asked = None if release is None else IfPromoted(tables, release, settings.keep.release_days)
    reader = Reader(tables, number, asked=asked)
    reader.snapshot()
    return reader


def started(settings: Settings, environ: Mapping[str, str], *, debug: bool = False) -> SparkSession:
    """The session of a person's own queries."""
    return get_or_create_session(settings, "pyspark", environ=environ, conf=_CONF, debug=debug)


def frames(session: SparkSession, reader: Reader) -> Frames:
    """The DataFrames of a session at the snapshot that a reader has pinned."""
    sources = reader.project().sources.values()
    ends = {source.name: ArchiveLedger(reader.tables, source.name).end(decoder_fingerprint(source)) for source in sources}
    return Frames(session, reader, ends)
