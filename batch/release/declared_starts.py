"""The declared starts of sources as positions of their logs, resolved once and stored with the release.

Of each partition the first record with a timestamp at or after the time counts, and all records after it. The archive is asked
first, because it has records that their topic no longer has, then Kafka, whose look-up by time returns the same offset.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import pyarrow.compute as pc

from tandem.infra import kafka
from tandem.infra.kafka.source_topics import topics_there
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.location import Location, opened
from tandem.ledger.files.file_ranges import RECORDS, table_ranges
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.publications import Publications
from tandem.ledger.publish.releases import Release, Releases
from tandem.views.errors import TandemError
from tandem.views.instant import microseconds
from tandem.views.project.project import STARTS_FILE, Project, load_starts, with_starts
from tandem.views.source.offset_ranges import Partition
from tandem.views.source.source import Source
from tandem.views.start import NOW, PLACED, StartPositions, TopicStarts, first_at, start_text


class StartImpossible(TandemError, code="start-impossible"):
    """A source cannot start where its definition says; the error states what exists."""


def with_stored_starts(project: Project, releases: Sequence[Release]) -> Project:
    """The project with the starts that the first of these releases to declare them the same way resolved."""
    starts: dict[str, StartPositions] = {}
    for release in releases:
        stored = load_starts(release.files[STARTS_FILE]) if STARTS_FILE in release.files else {}
        for name, start in stored.items():
            source = project.sources.get(name)
            if source is not None and name not in starts and (start.declared, start.topics) == _declaration(source):
                starts[name] = start
    return with_starts(project, starts)


def resolve_starts(
    project: Project, tables: Tables, connect: Callable[[], "kafka.BrokerConnection"], *, now: datetime
) -> Project:
    """The project with its starts as positions: those of the newest release, else of the live one, if they declare the same.

    Raises StartImpossible, NoBroker, NoTopic, Unreadable.
    """
    for name, source in project.sources.items():
        if source.start is None and PLACED in ArchiveLedger(tables, name).topic_names():
            raise StartImpossible(
                f"source '{name}' has rows of a table up to its start, and the topic's records from there on; without a start "
                "both would count: declare it again"
            )
    if all(source.start is None for source in project.sources.values()):
        return project
    releases, live = Releases(tables).every()[::-1], Publications(tables).latest()
    standing = [release for release in releases if live is not None and release.number == live.release]
    project = with_stored_starts(project, [*releases[:1], *standing])
    starts = {name: source.start for name, source in project.sources.items() if isinstance(source.start, StartPositions)}
    for name, source in project.sources.items():
        if source.start is not None and name not in starts:
            starts[name] = _resolve(source, tables, connect(), now)
    return with_starts(project, starts)


def _declaration(source: Source) -> tuple[str, tuple[str, ...]] | None:
    return None if source.start is None else (start_text(source.start), source.topic_texts)  # type: ignore[arg-type]


def _resolve(source: Source, tables: Tables, connection: "kafka.BrokerConnection", now: datetime) -> StartPositions:
    start, ledger = source.start, ArchiveLedger(tables, source.name)
    if isinstance(start, datetime) and start > now:
        raise StartImpossible(
            f"source '{source.name}' starts at {start_text(start)}, which is after now, {now.isoformat(timespec='seconds')}: "
            'a start is a time until now, or "now"'
        )
    topics = [*topics_there(connection, [source]).values()]
    ends = dict(ledger.archived())
    present = {topic.id for topic in topics}
    if isinstance(start, datetime):
        archived = first_archived_at(tables, source.name, start, ledger.archived())
        there = kafka.first_at(connection, topics, -(-microseconds(start) // 1000))
        offsets = {**ends, **kafka.ends(connection, topics), **there, **archived}
    elif start == NOW:
        offsets = {**ends, **kafka.ends(connection, topics)}
    else:
        declared = _by_topic_id(source, start, topics, _first_offsets(ledger, connection, topics))  # type: ignore[arg-type]
        offsets = {**{place: end for place, end in ends.items() if place[0] not in present}, **declared}
    # A row of PLACED is where its record was, so the start of that partition decides about it.
    offsets = {place: first for place, first in offsets.items() if place[0] != PLACED}
    return StartPositions.of(start_text(start), source.topic_texts, offsets)  # type: ignore[arg-type]


def _first_offsets(
    ledger: ArchiveLedger, connection: "kafka.BrokerConnection", topics: Sequence[kafka.Topic]
) -> dict[Partition, int]:
    """The first offset of each partition that the archive has, or that is left in the topic."""
    return {**kafka.starts(connection, topics), **ledger.firsts()}


def _by_topic_id(
    source: Source, start: TopicStarts, topics: Sequence[kafka.Topic], firsts: Mapping[Partition, int]
) -> dict[Partition, int]:
    ids = {topic.name: topic for topic in topics}
    declared = {}
    for name, offsets in start:
        if name not in ids:
            raise StartImpossible(
                f"source '{source.name}' starts at offsets of topic '{name}', which does not exist; `tandem up` creates it"
            )
        for number, offset in offsets:
            place = (ids[name].id, number)
            if number >= ids[name].partitions:
                raise StartImpossible(
                    f"source '{source.name}' starts at offset {offset} of partition {number} of topic '{name}', which has the "
                    f"partitions 0 to {ids[name].partitions - 1}"
                )
            if offset < firsts.get(place, 0):
                raise StartImpossible(
                    f"source '{source.name}' starts at offset {offset} of partition {number} of topic '{name}', of which neither "
                    f"archive nor topic has records before offset {firsts[place]}: start there or later"
                )
            declared[place] = offset
    return declared


def first_archived_at(tables: Tables, source: str, time: datetime, end: Position) -> dict[Partition, int]:
    """The first offset below `end` of each partition whose record has a timestamp at or after a time. Raises Unreadable."""
    address = tables.archive(source)
    place, firsts = Location.of(tables, address), dict[Partition, int]()
    for file in sorted(table_ranges(tables, address, RECORDS), key=lambda each: each.offsets):
        assert file.topics is not None
        assert file.partitions is not None  # each file of an archive has records of one partition
        partition = (file.topics[0], file.partitions[0])
        if partition in firsts:
            continue
        with opened(place, file.path) as parquet:
            for group in range(parquet.num_row_groups):
                rows = parquet.read_row_group(group, [RECORDS.offset, "timestamp"], use_threads=False)
                rows = rows.filter(pc.less(rows[RECORDS.offset], end.get(partition, 0)))
                first = first_at(time, rows[RECORDS.offset], rows["timestamp"])
                if first is not None:
                    firsts[partition] = first
                    break
    return firsts
