"""Before its commit a run's files must match the plan: pieces of it, no offset twice, and every record decoded."""

from collections.abc import Iterable

import pytest

from tandem.batch.archive.copy_task import Copied, CopyIncomplete, refuse_torn
from tandem.batch.archive.decode_to_files import DecodeResult
from tandem.batch.runtime.parquet_writer import Written
from tandem.views.source.offset_ranges import Ranges

PLANNED = Ranges.of({("T", 0): (10, 30), ("T", 1): (0, 5)})


def file(partition: int, first: int, last: int, *, rows: int | None = None, topic: str = "T") -> Written:
    """A file with a record at every offset from `first` to `last`, where nothing else is said."""
    bounds = {"topic_id": (topic, topic), "partition": (partition, partition), "offset": (first, last)}
    return Written(f"{topic}-{partition}-{first}", 1, last - first + 1 if rows is None else rows, bounds, {}, 0)


def copied(*files: Written, decoded: int | None = None) -> Copied:
    found = None if decoded is None else DecodeResult(decoded, 0, (), (), {})
    return Copied(files, found)


@pytest.mark.parametrize(
    "files",
    [
        (),
        (file(0, 10, 29), file(1, 0, 4)),
        (file(0, 20, 29), file(0, 10, 19)),
        (file(0, 15, 18, rows=2),),
    ],
)
def test_pieces_of_the_plan_are_accepted_with_or_without_holes(files: Iterable[Written]) -> None:
    refuse_torn(copied(*files), PLANNED)
    refuse_torn(copied(*files, decoded=sum(one.rows for one in files)), PLANNED)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ((file(0, 10, 19), file(0, 10, 19)), r"offsets \[10, 20\) of partition 0 of topic T, .* other tasks copied up to 20"),
        ((file(0, 10, 20), file(0, 20, 29)), r"offsets \[20, 30\) .* other tasks copied up to 21"),
        ((file(0, 9, 19),), r"offsets \[9, 20\) of partition 0 of topic T, but \[10, 30\) was planned"),
        ((file(0, 20, 30),), r"offsets \[20, 31\)"),
        ((file(2, 0, 1),), r"offsets \[0, 2\) of partition 2 of topic T, but nothing was planned"),
        ((file(0, 10, 12, topic="U"),), "partition 0 of topic U, but nothing was planned"),
        ((file(0, 10, 11, rows=3),), r"copied 3 records of offsets \[10, 12\)"),
    ],
)
def test_repeated_or_unplanned_offsets_are_refused(files: Iterable[Written], said: str) -> None:
    with pytest.raises(CopyIncomplete, match=said):
        refuse_torn(copied(*files), PLANNED)


def test_a_file_of_two_partitions_is_refused() -> None:
    mixed = Written("x", 1, 2, {"topic_id": ("T", "T"), "partition": (0, 1), "offset": (10, 11)}, {}, 0)
    with pytest.raises(CopyIncomplete, match="records of partition 0 of topic T and of partition 1 of topic T into one file"):
        refuse_torn(copied(mixed), PLANNED)


@pytest.mark.parametrize("decoded", [0, 19, 21])
def test_records_that_were_copied_but_not_decoded_are_refused(decoded: int) -> None:
    with pytest.raises(CopyIncomplete, match=f"20 records were copied and {decoded} of them decoded"):
        refuse_torn(copied(file(0, 10, 29), decoded=decoded), PLANNED)
