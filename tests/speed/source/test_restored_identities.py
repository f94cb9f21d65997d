"""An identity that a restart loads belongs to the commit of the stretch in which its record lies."""

from datetime import UTC, datetime
from itertools import accumulate, pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tandem.ledger.log.positions import LOG_START, Position
from tandem.speed.source.counted_at import CountedRange
from tandem.speed.source.restore_identities import numbered

AT = datetime(2026, 11, 1, tzinfo=UTC)
PARTITIONS = (("A", 0), ("A", 1), ("B", 0))

advances = st.lists(st.tuples(*(st.integers(0, 3) for _ in PARTITIONS)), min_size=1, max_size=6)


@given(advances, st.integers(0, 3), st.integers(0, 50))
def test_each_record_has_the_number_of_its_stretch(drawn: list[tuple[int, ...]], skipped: int, first: int) -> None:
    """Over two topics with partitions of equal numbers; some stretches have no record of a partition."""
    ends = list(accumulate(drawn, lambda one, further: tuple(map(sum, zip(one, further, strict=True)))))
    positions = [LOG_START, *(Position.of(dict(zip(PARTITIONS, end, strict=True))) for end in ends)]
    stretches = [CountedRange(start, end, AT) for start, end in pairwise(positions)]
    group = stretches[min(skipped, len(stretches) - 1) :]
    rows = [
        ((topic, partition, offset), first + number)
        for number, one in enumerate(group)
        for topic, partition in PARTITIONS
        for offset in range(one.start.get((topic, partition), 0), one.end.get((topic, partition), 0))
    ][::-1]
    places = [place for place, _ in rows]
    found = pa.table(
        {
            "_topic_id": pa.array([topic for topic, _, _ in places], pa.string()).dictionary_encode(),
            "_partition": pa.array([partition for _, partition, _ in places], pa.int32()),
            "_offset": pa.array([offset for _, _, offset in places], pa.int64()),
        }
    )
    assert numbered(found, group, first=first).tolist() == [number for _, number in rows]
