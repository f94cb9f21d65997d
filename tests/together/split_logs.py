"""Logs of many random cases, each with its own cut and two micro-batches, and the partials of a view of each part."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Any

from tandem.views.kernel.kernel import Partial, deduplicate, partial
from tandem.views.source.offset_ranges import Ranges
from tandem.views.view import View
from tests.samples import GENERATIONS, table
from tests.together.model import Chain, Place

Rows = Sequence[Mapping[str, Any]]


def split_chain(
    seed: int, cases: int, rows_of: Callable[[Random, int], Sequence[Rows]], topic_of: Callable[[int], str], **options: Any
) -> Chain:
    """The log of the rows that `rows_of` draws for each case, two partitions of each topic; `options` are those of Chain."""
    dice = Random(seed)
    log: dict[Place, list[dict[str, Any]]] = {}
    positions: list[dict[Place, int]] = [{}, {}, {}]
    for case in range(cases):
        for half, rows in enumerate(rows_of(dice, case)):
            topic, number = place = (topic_of(half), 2 * case + half % 2)
            log[place] = [{"_topic_id": topic, "_partition": number, "_offset": at, **row} for at, row in enumerate(rows)]
            cuts = sorted(dice.randint(0, len(rows)) for _ in range(2))
            for position, offset in zip(positions, (*cuts, len(rows)), strict=True):
                position[place] = offset
    return Chain(log, positions[0], positions[1:], identity=lambda row: row["id"], **options)


def split_partials(view: View, chain: Chain) -> list[Partial]:
    """The view's partials of the log below the cut and of each micro-batch; an event that an earlier one repeats is left out."""
    before, partials = table([], source=view.source), list[Partial]()
    for start, end in pairwise(({}, chain.cut, *chain.ends)):
        read = table([dict(row) for row in chain.between(start, end)], source=view.source)
        events = deduplicate(view.source, read, before, generations=GENERATIONS).events
        before = table([*before.to_pylist(), *events.to_pylist()], source=view.source)
        bounds = {place: (start.get(place, 0), offset) for place, offset in end.items()}
        partials.append(partial(view, events, Ranges.of(bounds)))
    return partials
