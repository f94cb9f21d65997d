"""However a tail grows and is compacted, the cached runs equal one merge of all its commits; old commits stay unread."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tandem.ledger.log.positions import LOG_START, Position, ranges
from tandem.ledger.realtime.commits import Commit
from tandem.serving.read.states import Runs, follow
from tandem.views.kernel.kernel import Partial, merge
from tandem.views.measures.count import count
from tandem.views.source.event import Event
from tandem.views.source.source import Source
from tandem.views.view import View, state_schema


class Hit(Event):
    moment: datetime
    page: str


hits = Source(topic="hits", event=Hit, event_time="moment")
per_page = View(source=hits, keys={"page": "page"}, measures={"n": count()}, name="per_page")

LOG = [f"/{n % 3}" for n in range(200)]


def at(offset: int) -> Position:
    return Position.of({("T", 0): offset})


def commits(ends: Sequence[int], start: int = 0) -> tuple[Commit, ...]:
    return tuple(Commit(at(a), at(b), 1, "fold") for a, b in zip([start, *ends], ends, strict=False))


@dataclass
class Decoding:
    """Decodes a commit from the log itself, and remembers which it was asked for."""

    asked: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, commit: Commit) -> Partial:
        start, end = commit.start.get(("T", 0), 0), commit.end[("T", 0)]
        self.asked.append((start, end))
        pages = LOG[start:end]
        rows = [{"page": page, "n": pages.count(page)} for page in sorted(set(pages))]
        return Partial(pa.Table.from_pylist(rows, state_schema(per_page)), ranges(commit.start, commit.end), {"expression": 1})


def counted(runs: Runs) -> dict[str, int]:
    states = merge(per_page, [run.partial for run in runs]).states
    return dict(zip(states["page"].to_pylist(), states["n"].to_pylist(), strict=True))


def oracle(start: int, end: int) -> dict[str, int]:
    return {page: LOG[start:end].count(page) for page in set(LOG[start:end])}


@st.composite
def chains(draw: st.DrawFn) -> list[tuple[int, ...]]:
    """Looks at one growing log: each a set of boundaries, of which compaction drops some and the cut passes others."""
    looks, end, start = [], 0, 0
    for _ in range(draw(st.integers(1, 6))):
        end = draw(st.integers(end, min(end + 40, len(LOG))))
        inner = draw(st.sets(st.integers(start, max(start, end)), max_size=12)) if end > start else set()
        looks.append(tuple(sorted({start, end, *inner})))
        start = draw(st.sampled_from([start, *looks[-1]]))
    return looks


@settings(max_examples=25)
@given(chains())
def test_every_poll_equals_one_merge(looks: list[tuple[int, ...]]) -> None:
    runs: Runs = ()
    for start, *ends in looks:
        runs = follow(per_page, runs, commits(ends, start), Decoding())
        assert counted(runs) == oracle(start, ends[-1] if ends else start)
        sizes = [run.partial.states.num_rows for run in runs]
        assert all(before > 2 * after for before, after in pairwise(sizes))


def test_only_new_commits_are_decoded() -> None:
    runs = follow(per_page, (), commits([10, 20]), Decoding())
    decoding = Decoding()
    runs = follow(per_page, runs, commits([10, 20, 30]), decoding)
    assert decoding.asked == [(20, 30)]
    assert runs[0].start == LOG_START
    assert counted(runs) == oracle(0, 30)


def test_a_commit_compacted_across_the_cached_end_is_read_again() -> None:
    runs = follow(per_page, (), commits([10, 20]), Decoding())
    decoding = Decoding()
    runs = follow(per_page, runs, commits([10, 30]), decoding)
    assert decoding.asked == [(0, 10), (10, 30)]
    assert counted(runs) == oracle(0, 30)


def test_rejections_add_up() -> None:
    runs = follow(per_page, (), commits([10, 20, 30]), Decoding())
    assert merge(per_page, [run.partial for run in runs]).rejected == {"expression": 3}
