"""The growth of the time to an answer with the size of the view: the smallest and the largest view are queried alternately.

If sizes were measured one after the other, a machine that is slower a few minutes later would change the result.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from tandem.bench.serving import measuring, over_http
from tandem.bench.serving.published import VIEW
from tandem.bench.serving.questions import Questions, ServingScale, by_turns
from tandem.bench.serving.served import ingesting, server

Ratios: TypeAlias = tuple[float, float]


@dataclass(frozen=True)
class Growth:
    """How many times as long the medians of one row and of many keys are in the largest view as in the smallest."""

    row: float
    lookup: float
    row_over_http: float
    lookup_over_http: float


def measure(folder: Path, scale: ServingScale, say: Callable[[str], None]) -> Growth:
    """Of the views that `measuring.measure` has published in a folder."""
    say("the smallest and the largest view by turns")
    own, http = (measuring.apart(side, folder, scale) for side in (_in_process, _over_http))
    return Growth(*own, *http)


def _in_process(folder: Path, scale: ServingScale) -> Ratios:
    sizes = _ends(scale)
    connections = [measuring.opened(folder / str(keys)) for keys in sizes]
    views = [connection.view(VIEW) for connection in connections]
    return _ratios([measuring.questions_to(view, keys, scale) for view, keys in zip(views, sizes, strict=True)])


def _over_http(folder: Path, scale: ServingScale) -> Ratios:
    asked = []
    with ExitStack() as stack:
        for keys in _ends(scale):
            place = folder / str(keys)
            _, client = stack.enter_context(server(place))
            asked.append(over_http.questions_to(client, keys, scale))
            stack.enter_context(ingesting(place, keys, over_http.PAGES, over_http.EVERY_S, 0))
        return _ratios(asked)


def _ends(scale: ServingScale) -> tuple[int, int]:
    return min(scale.keys), max(scale.keys)


def _ratios(asked: Sequence[Questions]) -> Ratios:
    rows, lookups = (by_turns(sides) for sides in zip(*asked, strict=True))
    return rows[1] / rows[0], lookups[1] / lookups[0]
