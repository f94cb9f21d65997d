"""One position in the logs of several sources: its topics are `<source>/<topic id>`, because two sources may read one topic."""

from collections.abc import Mapping
from typing import Final

from tandem.ledger.log.positions import Position
from tandem.views.source.source import Source
from tandem.views.source.united_source import sources_of

_BETWEEN: Final = "/"


def unite(positions: Mapping[str, Position]) -> Position:
    """One position for those of several sources, by their names."""
    return Position.of(
        {
            (f"{source}{_BETWEEN}{topic}", partition): offset
            for source, position in positions.items()
            for (topic, partition), offset in position.items()
        }
    )


def part_of(position: Position, source: str) -> Position:
    """The position of a source in a united one."""
    start = f"{source}{_BETWEEN}"
    return Position.of(
        {(topic.removeprefix(start), number): offset for (topic, number), offset in position.items() if topic.startswith(start)}
    )


def plain(position: Position, source: Source) -> Position:
    """What all sources of a view have counted, by topic: where several read one topic, the least. One source's as it is."""
    sources = sources_of(source)
    if len(sources) == 1:
        return position
    parts = {each.name: part_of(position, each.name) for each in sources}
    least: dict[tuple[str, int], int] = {}
    for each in sources:
        for place, offset in parts[each.name].items():
            others = [
                parts[other.name] for other in sources if other is not each and set(other.topic_texts) & set(each.topic_texts)
            ]
            behind = [other.get(place, 0) for other in others if not other or place[0] in {topic for topic, _ in other}]
            least[place] = min([offset, *behind])
    return Position.of(least)
