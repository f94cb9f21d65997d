"""batch, speed and merged answers equal plain Python's over their part of the log, for any cut, triggers and compaction."""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.log.positions import LOG_START, Position
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import Absent, Value
from tandem.views.source.offset_ranges import Partition
from tests.samples import just
from tests.serving import oracle
from tests.serving.world import ONE_TOPIC, TWO_TOPICS, World, hit

values = st.one_of(
    st.builds(
        hit,
        st.sampled_from(["/", "/a", "/b", None]),
        st.integers(0, 20) | st.just(2**62),
        minute=st.integers(-300, 300),
        price=st.sampled_from(["0.10", "-3.00", "12.35"]),
    ),
    st.just(b"{broken"),
)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 1), st.lists(values, min_size=1, max_size=6)),
        st.tuples(st.just("trigger")),
        st.tuples(st.just("recompute"), st.integers(0, 5)),
        st.tuples(st.just("compact")),
        st.tuples(st.just("look")),
    ),
    min_size=3,
    max_size=14,
)


@just(60, quick=5)
@given(steps, st.sampled_from([ONE_TOPIC, TWO_TOPICS]))
def test_every_layer_of_every_view_is_exact_at_every_moment(
    steps: list[tuple[object, ...]], places: tuple[Partition, ...]
) -> None:
    with TemporaryDirectory() as folder:
        world = World(Path(folder), places=places)
        reader = Reader(world.tables)
        boundaries = [LOG_START]
        cut = LOG_START
        for step in [*steps, ("look",)]:
            match step:
                case ("append", int(partition), list(some)):
                    world.append(partition, *some)
                case ("trigger",) if world.end != world.writer.end:
                    world.trigger()
                    boundaries.append(world.writer.end)
                case ("recompute", int(back)):
                    ahead = [boundary for boundary in boundaries if cut.at_or_below(boundary)]
                    cut = ahead[max(0, len(ahead) - 1 - back)]
                    world.recompute(cut)
                case ("compact",):
                    world.compact()
                    boundaries = [cut, world.writer.end]
                case ("look",):
                    reader.refresh()
                    check(world, reader, cut)


def check(world: World, reader: Reader, cut: Position) -> None:
    end = world.writer.end
    spans = {"batch": (LOG_START, cut), "speed": (cut, end), "merged": (LOG_START, end)}
    for layer, (start, to) in spans.items():
        counted = world.values(start, to)
        for view, expected in oracle.ANSWERS.items():
            answer = reader.answer(view, layer=layer)  # type: ignore[arg-type]
            assert isinstance(answer, Value | Absent)
            assert oracle.unlabelled(answer.rows()) == oracle.unlabelled(expected(counted))
            assert isinstance(answer, Absent) is (not expected(counted))
            assert answer.total == len(expected(counted))
            assert answer.provenance.cut == cut
            assert answer.provenance.realtime == to
        rejected = reader.answer("inverse", layer=layer)  # type: ignore[arg-type]
        assert isinstance(rejected, Value | Absent)
        assert rejected.provenance.rejected == oracle.rejected_by_inverse(counted)
