"""Which offsets a source's log lost before they were archived, by what the ledger recorded of the log.

Every offset that was ever counted, or that the log had when Tandem first read it, is either archived or lost. What a topic
deleted before that is not part of the log.
"""

from collections.abc import Collection, Iterable, Mapping

from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import LOG_START, Position, upper
from tandem.ledger.realtime.commit_files import spans_of
from tandem.views.source.offset_ranges import Interval, Offsets, Partition, Ranges


def first_offsets(
    starts: Offsets, topics: Mapping[str, str], *, known: Offsets, names: Mapping[str, str]
) -> dict[Partition, int]:
    """The first offset that the log ever had, of each partition that it has now.

    Args:
        starts: the first offsets that the log has now.
        topics: ids of the log's topics by name.
        known: the recorded first offsets; a recorded one stays.
        names: the recorded names of topics by id.

    A partition that was added to a known topic, or that belongs to a topic created again under a known name, began at 0 and may
    have lost records unseen. All others begin where the log starts now.
    """
    looked_at = {topic for topic, _ in known}
    anew = {topic for name, topic in topics.items() if any(other != topic and names[other] == name for other in names)}
    return {
        (topic, number): known.get((topic, number), 0 if topic in looked_at or topic in anew else start)
        for (topic, number), start in starts.items()
    }


def counted_of_former(tables: Tables, source: str, *, releases: Iterable[int], present: Collection[str]) -> Position:
    """How far these releases' realtime tables reach in deleted topics: the proof of offsets that no log has any more."""
    if ArchiveLedger(tables, source).topic_names().keys() <= set(present):
        return LOG_START
    reached = upper(*(span.end for release in releases for span in spans_of(tables, release, source)))
    return Position.of({(topic, number): end for (topic, number), end in reached.items() if topic not in present})


def lost(starts: Offsets, *, firsts: Offsets, archived: Position, former: Position) -> Ranges:
    """The offsets above the `archived` position that the log no longer has.

    `starts` are the first offsets that the log has now, `firsts` those that it ever had; `former` are the positions up to which
    deleted topics were counted.
    """
    begins: dict[Partition, int] = {**starts, **former}
    found: dict[Partition, Interval] = {}
    for partition, end in begins.items():
        start = archived.get(partition, firsts.get(partition, 0))
        found[partition] = (min(start, end), end)
    return Ranges.of(found)
