"""The expected answers count the sent events, at the requested rate, until the end or a stop."""

import json
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Timer

import pytest

from tandem.cli.log.generate import Driven, Generator, NoGenerator, drive, empty_truth, load, samples
from tandem.cli.records import expected_answers
from tandem.cli.records.record_keys import Sample, keyed
from tandem.views.errors import TandemError
from tandem.views.source.event import Event as Record
from tandem.views.source.source import Source

WEB = Path(__file__).parents[3] / "examples" / "web"
BASE = datetime(2026, 11, 1, tzinfo=UTC)


class Tally:
    """A truth that counts facts one by one."""

    def __init__(self) -> None:
        self.facts: Counter[int] = Counter()

    def add(self, facts: int) -> None:
        self.facts[facts] += 1

    def manifest(self) -> dict[str, list[dict[str, object]]]:
        return {}


def numbers(count: int) -> Iterator[Sample]:
    """Samples whose facts are their numbers; every tenth is malformed."""
    return ((None, b"%d" % i, None if i % 10 == 9 else i) for i in range(count))


def test_all_samples_are_sent_in_order_and_the_good_ones_counted() -> None:
    sent: list[tuple[bytes, bytes | None]] = []
    truth = Tally()
    assert drive(numbers(30), truth, lambda value, key: sent.append((value, key)), stop=Event()) == Driven(30, 3)
    assert sent == [(b"%d" % i, None) for i in range(30)]
    assert truth.facts == Counter(i for i in range(30) if i % 10 != 9)


class Number(Record):
    at: datetime
    n: int


def test_a_sources_key_replaces_the_generators() -> None:
    values = [b'{"at":"2026-11-01T00:00:00Z","n":%d}' % (i % 7) if i % 10 else b"broken" for i in range(2_500)]
    given = [(b"own", value, i, "s") for i, value in enumerate(values)]
    plain = Source(topic="t", event=Number, event_time="at")
    assert list(keyed({"s": plain}, given)) == given
    found = list(keyed({"s": replace(plain, key="n")}, given))
    assert found == [(b"%d" % (i % 7) if i % 10 else None, value, i, "s") for i, value in enumerate(values)]


def test_samples_of_several_sources_go_each_to_its_own_with_its_key() -> None:
    plain = Source(topic="a", event=Number, event_time="at")
    sources = {"a": plain, "b": replace(plain, topic="b", key="n")}
    values = [b'{"at":"2026-11-01T00:00:00Z","n":%d}' % i for i in range(2_500)]
    mixed = [(b"own", value, i, "ab"[i % 3 == 0]) for i, value in enumerate(values)]
    sent: list[tuple[bytes, bytes | None, str]] = []
    truth = Tally()
    driven = drive(keyed(sources, mixed), truth, lambda *record: sent.append(record), skip=100, stop=Event())
    assert driven == Driven(2_400, 0)
    assert sent == [(value, b"own" if i % 3 else b"%d" % i, "ab"[i % 3 == 0]) for i, value in enumerate(values)][100:]
    assert len(truth.facts) == 2_500


def test_a_generator_of_several_sources_names_them(tmp_path: Path) -> None:
    code = (
        "SOURCES = ('a', 'b')\nTruth = dict\ndef generate(seed, n, base, duplicates):\n    yield from [(None, b'1', 1, 'b')] * n"
    )
    (tmp_path / "generator.py").write_text(code)
    generator = load(tmp_path)
    assert generator.sources == ("a", "b")
    assert list(samples(generator, 1, 2, BASE, 0.0)) == [(None, b"1", 1, "b")] * 2
    assert [source for *_, source in samples(load(WEB), 1, 2, BASE, 0.0)] == ["requests"] * 2


def test_a_truth_of_several_sources_has_no_topic_to_ask_for() -> None:
    def asking(topic_id: str) -> Tally:
        raise AssertionError(topic_id)

    with pytest.raises(NoGenerator, match=r"parameter 'topic_id' of Truth in .* needs one source; sources: a, b"):
        empty_truth(Generator(("a", "b"), numbers, asking), [("x", 1), ("y", 1)])


def test_skipped_samples_count_in_the_expected_answers_and_are_not_sent() -> None:
    sent: list[bytes] = []
    truth = Tally()
    assert drive(numbers(30), truth, lambda value, _: sent.append(value), skip=20, stop=Event()) == Driven(10, 1)
    assert sent == [b"%d" % i for i in range(20, 30)]
    assert truth.facts == Counter(i for i in range(30) if i % 10 != 9)


def test_the_rate_is_kept_and_a_stop_writes_the_expected_answers() -> None:
    stop, truth, sent = Event(), Tally(), list[bytes]()
    Timer(0.5, stop.set).start()
    start = time.monotonic()
    driven = drive(numbers(10**9), truth, lambda value, _: sent.append(value), rate=200, stop=stop)
    assert len(sent) == driven.sent <= (time.monotonic() - start) * 200 + 1
    assert sum(truth.facts.values()) == driven.sent - driven.malformed > 0


def test_the_examples_generators_load_and_an_endless_run_starts_like_a_short_one() -> None:
    generator = load(WEB)
    assert generator.sources == ("requests",)
    endless = samples(generator, 1, None, BASE, 0.0)
    assert [next(endless) for _ in range(50)] == list(samples(generator, 1, 50, BASE, 0.0))


def test_a_truth_gets_the_topic_parameters_that_it_names() -> None:
    class Asking(Tally):
        def __init__(self, topic_id: str, partitions: int) -> None:
            self.asked = (topic_id, partitions)

    class Wrong(Tally):
        def __init__(self, partition: int) -> None:
            self.asked = partition

    asking = empty_truth(Generator(("s",), numbers, Asking), [("id", 3)])
    assert isinstance(asking, Asking)
    assert asking.asked == ("id", 3)
    assert isinstance(empty_truth(Generator(("s",), numbers, Tally), [("id", 3)]), Tally)
    with pytest.raises(NoGenerator, match=r"unknown parameter 'partition' of Truth in .*; parameters: topic_id, partitions"):
        empty_truth(Generator(("s",), numbers, Wrong), [("id", 3)])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "has no generator.py"),
        ("SOURCE = 'a'", "does not define generate, Truth"),
        ("1/0", "ZeroDivisionError"),
        ("def (", "SyntaxError"),
        (
            "SOURCE, generate, Truth = 'a', print, print\nCONDITIONS = ['busy']",
            "is not a dict of functions",
        ),
        (
            "SOURCE, generate, Truth = 'a', print, print\nCONDITIONS = {'busy': 'n > 1'}",
            "is not a dict of functions",
        ),
    ],
)
def test_a_missing_or_invalid_generator_is_explained(tmp_path: Path, content: str | None, sentence: str) -> None:
    if content is not None:
        (tmp_path / "generator.py").write_text(content)
    with pytest.raises(NoGenerator, match=sentence):
        load(tmp_path)


def test_expected_answers_are_written_atomically_and_read_back(tmp_path: Path) -> None:
    file = tmp_path / "new" / "truth.json"
    expected_answers.write(file, {"views": {"v": [{"café": 2**70}]}})
    expected_answers.write(file, {"views": {"v": [{"café": 2**80}]}})
    assert expected_answers.read(file) == {"v": [{"café": 2**80}]}
    assert [path.name for path in file.parent.iterdir()] == ["truth.json"]


def test_expected_answers_that_cannot_be_written_or_read_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text(json.dumps([]))
    with pytest.raises(TandemError, match="cannot write the expected answers"):
        expected_answers.write(tmp_path / "file" / "truth.json", {})
    with pytest.raises(TandemError, match="is not a file of expected answers"):
        expected_answers.read(tmp_path / "file")
