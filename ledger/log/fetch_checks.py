"""Whether what was fetched is what was planned: the checks between a fetch and its commit. Pure functions.

TandemError
├── Unclosed     a range's records and explained holes do not make its length
└── LogChanged   the log lost offsets, or is another log, while or since they were read
"""

from collections.abc import Iterable, Mapping

from ledger.log.counts import Counts
from views.errors import TandemError
from views.source.offset_ranges import Offsets, Partition, Ranges


class Unclosed(TandemError):
    """A range whose outcomes do not add up to its offsets."""


class LogChanged(TandemError):
    """The log is not the log that the ledger's positions speak of."""


def refuse_unclosed(ranges: Ranges, counts: Counts) -> None:
    """Raise Unclosed unless decoded records, quarantined ones, others' and explained holes make the ranges' length."""
    if counts.offsets != ranges.length:
        raise Unclosed(
            f"{counts.offsets} outcomes were counted for {ranges.length} offsets: {counts.records} records with {counts.events} "
            f"events and {counts.duplicates} duplicates, {counts.rejects} quarantined, {counts.others} of other sources, "
            f"{counts.holes} holes; nothing was committed"
        )


def refuse_changed_log(planned: Offsets, *, firsts: Offsets, ends: Offsets) -> None:
    """Raise LogChanged unless the log still is what was planned on.

    `planned` is where the fetch began on every partition, offset 0 included. `firsts` and `ends` are the log's first and next
    offsets now, by partition with the topic's id. A partition that is gone is another topic's under the old name; a partition
    that begins past `planned` lost records while they were read; a partition that ends below it gives offsets a second time.
    """
    for partition, offset in planned.items():
        if partition not in firsts or partition not in ends:
            raise LogChanged(
                f"{_name(partition)} no longer exists: the topic was deleted or created again; its records were not committed"
            )
        if firsts[partition] > offset:
            raise LogChanged(f"{_name(partition)} now begins at {firsts[partition]}, after {offset}, where the fetch began")
        if ends[partition] < offset:
            raise LogChanged(
                f"{_name(partition)} ends at {ends[partition]}, below {offset}, which was read before, so it is another log"
            )


def refuse_new_topic(present: Mapping[str, str], reached: Iterable[Partition], known: Mapping[str, str]) -> None:
    """Raise LogChanged if something of a topic's name was read before, and nothing of it from the topic that has the name now.

    `present` are the source's topics now, ids by name. `reached` are the partitions that were read of, of every generation of
    every topic; `known` gives the names that ids had, of those too that were accepted before they had a record. An id without
    one may have been any topic's that was read of.
    """
    ids = {topic for topic, _ in reached}
    for name, topic in present.items():
        former = {one for one in ids if known.get(one, name) == name and one not in present.values()}
        if topic not in ids and topic not in known and former:
            raise LogChanged(
                f"topic '{name}' was deleted and created again, or this is another broker; `tandem archive --new-topic` "
                "continues with this topic, without the records of the former topic that the archive lacks"
            )


def _name(partition: Partition) -> str:
    return f"partition {partition[1]} of topic {partition[0]}"
