"""The checks between a fetch and its commit: was the planned range fetched? Pure functions.

TandemError
├── Unclosed     a range's records and explained holes do not make its length
└── LogChanged   the log lost offsets, or is another log, while or since they were read
"""

from collections.abc import Iterable, Mapping

from tandem.ledger.log.counts import Counts
from tandem.views.errors import TandemError
from tandem.views.source.offset_ranges import Offsets, Partition, Ranges


class Unclosed(TandemError, code="range-not-closed"):
    """The outcomes of a range do not add up to its offsets."""


class LogChanged(TandemError, code="log-changed"):
    """The ledger's positions refer to another log."""


def refuse_unclosed(ranges: Ranges, counts: Counts) -> None:
    """Raise Unclosed unless records, rejects, records of other sources and explained holes make the length of the ranges."""
    if counts.offsets != ranges.length:
        raise Unclosed(
            f"{counts.offsets} outcomes were counted for {ranges.length} offsets: {counts.records} records with {counts.events} "
            f"events and {counts.duplicates} duplicates, {counts.whole_rejects} quarantined, {counts.others} of other "
            f"sources, {counts.skipped} skipped, {counts.erased} erased, {counts.holes} holes; nothing was committed"
        )


def refuse_changed_log(planned: Offsets, *, firsts: Offsets, ends: Offsets) -> None:
    """Raise LogChanged unless the log is still the one for which the fetch was planned.

    `planned` is where the fetch began on every partition, offset 0 included. `firsts` and `ends` are the log's first and next
    offsets now, by partition with the topic's id. If a partition no longer exists, another topic has its name. If it begins
    above `planned`, it lost records while they were read. If it ends below, it assigns offsets a second time.
    """
    for partition, offset in planned.items():
        if partition not in firsts or partition not in ends:
            raise LogChanged(
                f"{named(partition)} no longer exists: the topic was deleted or created again; its records were not committed"
            )
        if firsts[partition] > offset:
            raise LogChanged(f"{named(partition)} now begins at {firsts[partition]}, after {offset}, where the fetch began")
        if ends[partition] < offset:
            raise LogChanged(
                f"{named(partition)} ends at {ends[partition]}, below {offset}, which was read before, so it is another log"
            )


def refuse_new_topic(present: Mapping[str, str], reached: Iterable[Partition], known: Mapping[str, str]) -> None:
    """Raise LogChanged if a topic was read under this name before, but not the topic that has the name now.

    `present` are the source's topics now, ids by name. `reached` are all partitions that were read, of every generation. `known`
    has the recorded names of ids, also of topics that were accepted before they had a record. An id without a recorded name may
    belong to any topic.
    """
    ids = {topic for topic, _ in reached}
    for name, topic in present.items():
        former = {one for one in ids if known.get(one, name) == name and one not in present.values()}
        if topic not in ids and topic not in known and former:
            raise LogChanged(
                f"topic '{name}' was deleted and created again, or this is another broker; `tandem archive --new-topic` "
                "continues with this topic, without the records of the former topic that the archive lacks"
            )


def named(partition: Partition) -> str:
    """A partition in an error message."""
    return f"partition {partition[1]} of topic {partition[0]}"
