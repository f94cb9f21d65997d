"""Logs of many random cases, each with its own cut and two micro-batches, and the partials of a view of each part."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from random import Random
from typing import Any

from tandem.views.kernel.kernel import Partial, deduplicate, merge, partial, present, roll
from tandem.views.source.offset_ranges import Ranges
from tandem.views.view import View, group_columns
from tests.samples import GENERATIONS, table
from tests.together import model
from tests.together.model import Chain, Model, Place, ViewModel

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


def answers(view: View, states: Partial) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The measures of each row of an answer, by key and window."""
    rows = present(view, states).to_pylist()
    return {tuple(row[name] for name in group_columns(view)): {name: row[name] for name in view.measures} for row in rows}


def states_of(view: View, states: Partial) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The states by key and window."""
    return {tuple(row[name] for name in group_columns(view)): row for row in states.states.to_pylist()}


def rows_of_model(of: Model, chain: Chain, layer: model.Layer = "merged") -> dict[tuple[Any, ...], dict[str, Any]]:
    """The same of the model."""
    return {(*key, *window): dict(row.values) for (key, window), row in model.answer(of, chain, layer=layer).items()}


def check_at_any_cut(view: View, folds: Sequence[Partial], of: Model, chain: Chain, drawn: str) -> None:
    """Batch below the cut, and batch merged with micro-batches, have the rows of the model; in any grouping, equal states.

    `folds` are the view's partials of each part of the chain, or those of a rollup's root.
    """
    rolled = [Partial(roll(view, fold.states), fold.ranges, fold.rejected) for fold in folds]
    incremental, regrouped = merge(view, [merge(view, rolled[:2]), rolled[2]]), merge(view, [rolled[2], rolled[0], rolled[1]])
    assert answers(view, incremental) == rows_of_model(of, chain), drawn
    assert answers(view, rolled[0]) == rows_of_model(of, chain, "batch"), drawn
    assert states_of(view, incremental) == states_of(view, regrouped), drawn


def check_one_fold(view: View, folds: Sequence[Partial], chain: Chain, drawn: str) -> None:
    """One fold of all events has the states of the merged partials of each part of the chain."""
    every = table([dict(row) for batch in chain.counted() for row in batch], source=view.source)
    whole = partial(view, every, Ranges.of({("topic", 0): (0, 1)}))
    assert states_of(view, whole) == states_of(view, merge(view, folds)), drawn


def check_hard(
    of: ViewModel, chain: Chain, cases: int, cases_of: Callable[[Sequence[Rows]], Iterator[str]], wanted: set[str]
) -> None:
    """Every hard case occurs in more than one of a hundred cases; `cases_of` names those of the rows of one window."""
    hard = Counter[str]()
    groups = [of.groups(batch) for batch in chain.counted()]
    for group in model.unite(groups):
        hard.update(set(cases_of([each.get(group, []) for each in groups])))
    print(f"{cases} cases: {dict(hard)}")  # noqa: T201 - how many hard cases were drawn
    assert set(hard) == wanted
    assert min(hard.values()) > cases // 100, hard
