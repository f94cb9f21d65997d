"""The missing parts of a new release are built at the live cuts: views without a batch view, sources without a cut."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tandem.batch.recompute.plan import RecomputeStep
from tandem.batch.release.release_plan import Change, missing_steps
from tandem.ledger.log.positions import LOG_START
from tandem.ledger.publish.batch_parts import BatchPart, BatchView
from tandem.ledger.publish.publications import Publication
from tandem.ledger.publish.releases import Release
from tests.ledger.tiny import AT, at

DEFINITIONS = b"""
from datetime import datetime

from tandem import Event, Source, View, count


class Sale(Event):
    moment: datetime


one = Source(topic="one", event=Sale, event_time="moment")
two = Source(topic="two", event=Sale, event_time="moment")
first = View(source=one, measures={"n": count()})
second = View(source=one, measures={"n": count()})
SOURCES = (one, two)
VIEWS = (first, second)
"""
RELEASE = Release(2, AT, "test", {}, {}, {"definitions.py": DEFINITIONS, "tandem.toml": b""})
VIEWS = {"one": ("first", "second"), "two": ()}
CUT, PARTS = at(3, 4), (BatchPart(1, 2, at(3, 4)),)


@given(st.sets(st.sampled_from(["one", "two"])), st.sets(st.sampled_from(["one", "two"])), st.sets(st.sampled_from(VIEWS["one"])))
def test_a_source_without_views_is_built_as_well(counted: set[str], begun: set[str], built: set[str]) -> None:
    live = Publication(1, 0, AT, "test", "recompute", 1, dict.fromkeys(counted, CUT), {})
    views = {name: BatchView("f", PARTS if name in built else ()) for name in VIEWS["one"]}
    base = replace(live, release=2, cuts=dict.fromkeys(begun, CUT), views=views)
    found = missing_steps(Change(live, RELEASE, RELEASE), base)
    expected = []
    for source in sorted(counted):
        lacking = [name for name in VIEWS[source] if name not in built]
        if lacking or source not in begun:
            expected.append(RecomputeStep(source, "full", LOG_START, CUT, dict.fromkeys(lacking, ())))
    assert found == expected
