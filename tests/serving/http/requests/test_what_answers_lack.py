"""Answers count a position once every source that counts a topic has come as far on it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.log.positions import Position
from tandem.ledger.publish.publications import Publication
from tandem.serving.http.queries.answer_question import _lacking
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.snapshot import Snapshot
from tandem.views.measures import count
from tandem.views.source.offset_ranges import Partition
from tandem.views.view import View
from tests.ledger.tiny import AT
from tests.samples import SAMPLES

PUBLICATION = Publication(1, 0, AT, "test", "recompute", 1, {}, {})
SOURCES = {name: replace(SAMPLES, name=name) for name in ("one", "two", "three", "torn")}
VIEWS = {name: View(source=source, measures={"n": count()}, name="n") for name, source in SOURCES.items()}
places: list[Partition] = [("T", 0), ("T", 1), ("U", 0)]
positions = st.dictionaries(st.sampled_from(places), st.integers(1, 4)).map(Position.of)


@given(st.dictionaries(st.sampled_from(["one", "two", "three"]), positions), positions)
def test_nothing_is_lacking_if_each_source_has_come_as_far(ends: dict[str, Position], wanted: Position) -> None:
    tails = {name: RealtimeTail(Position(), end) for name, end in ends.items()}
    found = _lacking(Snapshot(PUBLICATION, tails), [VIEWS[name] for name in ends], wanted)
    far = []
    for place, offset in wanted.items():
        reading = [end for end in ends.values() if any(topic == place[0] for topic, _ in end)]
        far.append(bool(reading) and all(end.get(place, 0) >= offset for end in reading))
    assert (found == 0) == all(far)
    assert found <= sum(wanted.values())


@given(positions)
def test_a_source_without_an_answer_keeps_nobody_waiting(wanted: Position) -> None:
    """The answer says what is wrong with it."""
    tails = {"one": RealtimeTail(Position(), wanted), "torn": RealtimeTail(Position(), Position(), problem="a gap")}
    assert _lacking(Snapshot(PUBLICATION, tails), [VIEWS[name] for name in tails], wanted) == 0
