"""If a topic was deleted while it was copied, exactly its files of the run are removed from the archive."""

from tandem.batch.archive.copy import doubtful
from tandem.ledger.files.file_ranges import EVERY_OFFSET, FileRange
from tandem.views.source.offset_ranges import Ranges

RUN = Ranges.of({("gone", 0): (10, 20), ("gone", 1): (5, 8), ("there", 0): (0, 30)})
LOG = {("there", 0): 0}


def span(path: str, topic: str, partition: int, start: int, end: int) -> FileRange:
    return FileRange(path, end - start, (topic, topic), (partition, partition), (start, end))


def test_files_of_the_run_and_of_a_deleted_topic_are_removed() -> None:
    files = [
        span("whole", "gone", 0, 10, 20),
        span("part", "gone", 0, 12, 13),
        span("other partition", "gone", 1, 5, 8),
        span("earlier run", "gone", 0, 0, 10),
        span("across the run's start", "gone", 0, 9, 12),
        span("later", "gone", 0, 20, 21),
        span("topic that is there", "there", 0, 0, 30),
        span("unknown topic", "unknown", 0, 10, 20),
    ]
    assert doubtful(files, RUN, LOG) == {"whole", "part", "other partition"}


def test_a_file_without_bounds_stays() -> None:
    assert not doubtful([FileRange("unknown", 3), FileRange("offsets", 3, ("gone", "gone"), (0, 0), EVERY_OFFSET)], RUN, LOG)
    assert not doubtful([FileRange("several topics", 3, ("gone", "there"), (0, 0), (10, 20))], RUN, LOG)


def test_no_file_is_removed_if_the_log_has_all_partitions() -> None:
    assert not doubtful([span("whole", "gone", 0, 10, 20)], RUN, {("gone", 0): 15, ("gone", 1): 0, **LOG})
