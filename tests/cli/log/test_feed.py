"""`tandem feed`: every line is one record, byte for byte, and success means that all were acknowledged."""

import gzip
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tandem.cli.__main__ import main
from tandem.infra import kafka
from tandem.infra.settings import Settings
from tests.schema_server import schema_server
from tests.stack import PYTHONPATH, consumed, delete_topic, environ, kafka_toml

pytestmark = pytest.mark.broker

FORCED = "--allow-rejects"
"""Of files that are not events: what is sent is byte for byte what the file has."""

DEFINITIONS = """
from datetime import datetime
from tandem import Event, Source, View, count

class Line(Event):
    at: datetime

lines = Source(topic="{topic}", event=Line, event_time="at")
hits = View(source=lines, measures={{"n": count()}})
SOURCES = (lines,)
VIEWS = (hits,)
"""


@pytest.fixture
def project(tmp_path: Path, broker: kafka.BrokerConnection) -> Iterator[Path]:
    """A project of one source at the shared broker, its topic as the name of its folder."""
    folder = tmp_path / f"feed-{time.monotonic_ns()}"
    folder.mkdir()
    (folder / "definitions.py").write_text(DEFINITIONS.format(topic=folder.name))
    (folder / "tandem.toml").write_text(kafka_toml(broker))
    kafka.create(broker, [folder.name], Settings())
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], project: Path):
    """Run `tandem feed` in the project's folder with these arguments and standard input."""
    for name in set(os.environ) - set(environ()):
        monkeypatch.delenv(name)
    monkeypatch.chdir(project)

    def run(file: str, *options: str, given: bytes = b"", source: str = "lines") -> tuple[int, dict[str, Any], str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        code = main(["feed", file, "--source", source, "--json", *options])
        shown = capsys.readouterr()
        return code, json.loads(shown.out), shown.err

    return run


def values(broker: kafka.BrokerConnection, name: str) -> list[bytes]:
    """The values of what the topic holds, in no order over partitions."""
    return [record.value for record in records(broker, name)]


def records(broker: kafka.BrokerConnection, name: str) -> list[Any]:
    """What the topic holds, in no order over partitions."""
    return consumed(broker, kafka.topic(broker, name))


def test_each_line_without_its_end_is_a_record_also_a_blank_one(feed, project: Path, broker: kafka.BrokerConnection) -> None:
    data = b'{"at": 1}\n\n\xff\x00 not text\r\n  \n\n"last, without an end"'
    (project / "plain.txt").write_bytes(data)
    (project / "packed.gz").write_bytes(gzip.compress(data))
    for file, given in (("plain.txt", b""), ("packed.gz", b""), ("-", data)):
        code, document, errors = feed(file, FORCED, given=given)
        assert (code, errors) == (0, "")
        assert (document["source"], document["sent"]) == ("lines", 6)
    expected = [b'{"at": 1}', b"", b"\xff\x00 not text", b"  ", b"", b'"last, without an end"']
    assert sorted(values(broker, project.name)) == sorted(expected * 3)


def test_positions_are_those_after_the_sent_records(feed, project: Path, broker: kafka.BrokerConnection) -> None:
    code, document, _ = feed("-", FORCED, given=b"line\n" * 5000)
    ends = kafka.ends(broker, [kafka.topic(broker, project.name)])
    told = {(topic, int(number)): offset for topic, of in document["positions"].items() for number, offset in of.items()}
    assert (code, document["sent"]) == (0, 5000)
    assert told == {partition: end for partition, end in ends.items() if end}


def test_lines_of_one_key_are_in_one_partition(feed, project: Path, broker: kafka.BrokerConnection) -> None:
    """In their order, with the key of their source; a line that does not decode is sent without one."""
    definitions = (project / "definitions.py").read_text()
    definitions = definitions.replace("    at: datetime\n", "    at: datetime\n    n: int\n").replace(
        '"at")', '"at", key="n % 5")'
    )
    (project / "definitions.py").write_text(definitions)
    given = [b'{"at": "2026-11-01T00:00:00Z", "n": %d}' % number for number in range(2_500)]
    assert feed("-", given=b"\n".join([*given, b"broken"]))[:2][0] == 0
    found = records(broker, project.name)
    assert sorted(record.value for record in found) == sorted([*given, b"broken"])
    partitions: dict[bytes | None, set[int]] = {}
    for record in found:
        partitions.setdefault(record.key, set()).add(record.partition)
    assert partitions.keys() == {b"0", b"1", b"2", b"3", b"4", None}
    assert {len(places) for places in partitions.values()} == {1}
    for key in range(5):
        mine = [record.value for record in found if record.key == b"%d" % key]
        assert mine == given[key::5]


def test_an_empty_file_succeeds(feed) -> None:
    assert feed("-")[:2] == (0, {"source": "lines", "sent": 0, "positions": {}})


def test_a_record_that_kafka_refuses_fails_the_command(feed) -> None:
    code, document, errors = feed("-", FORCED, given=b"fine\n" + b"x" * 2_000_000 + b"\n")
    assert code == 1
    assert document["error"].startswith("line 2 of -: ")
    assert "too large; 1 were acknowledged; the record has 2000000 bytes" in document["error"]
    assert errors == f"tandem: {document['error']}\n"


def test_a_refused_feed_is_one_sentence(feed, project: Path, broker: kafka.BrokerConnection) -> None:
    assert feed("no-such-file")[1]["error"] == "cannot read no-such-file: the file does not exist"
    (project / "empty").mkdir()
    assert feed("empty")[1]["error"].startswith("folder empty has no files")
    (project / "broken.gz").write_bytes(gzip.compress(b"line\n" * 100)[:-10])
    code, document, _ = feed("broken.gz")
    assert (code, document["error"].startswith("cannot read broken.gz: ")) == (1, True)
    said = "no source 'lnes'; sources: lines"
    assert feed("-", source="lnes") == (1, {"error": said, "code": "source-unknown"}, f"tandem: {said}\n")
    delete_topic(broker, project.name)
    error = feed("-")[1]["error"]
    assert error.startswith(f"topic '{project.name}' does not exist at ")
    assert error.endswith("; run `tandem up` to create it")


def test_following_continues_across_a_rotation_until_stopped(project: Path, broker: kafka.BrokerConnection) -> None:
    file = project / "access.log"
    file.write_bytes(b"one\n")
    command = [
        sys.executable,
        "-m",
        "tandem.cli",
        "feed",
        str(file),
        "--source",
        "lines",
        "--follow",
        FORCED,
        "--json",
        "--project",
        str(project),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**environ(), "PYTHONPATH": PYTHONPATH}, cwd=project) as running:
        wait_for(broker, project.name, 1)
        with file.open("ab") as stream:
            stream.write(b"two\nthree, the last of its file")
        file.rename(project / "access.log.1")
        file.write_bytes(b"four\n")
        wait_for(broker, project.name, 4)
        os.kill(running.pid, signal.SIGTERM)
        output = running.communicate(timeout=300)[0]
    assert (running.returncode, json.loads(output)["sent"]) == (0, 4)
    assert sorted(values(broker, project.name)) == [b"four", b"one", b"three, the last of its file", b"two"]


def wait_for(broker: kafka.BrokerConnection, name: str, count: int) -> None:
    deadline = time.monotonic() + 300
    topic = kafka.topic(broker, name)
    while sum(kafka.ends(broker, [topic]).values()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_csv_file_with_a_header_is_sent_with_its_header(feed, project: Path, broker: kafka.BrokerConnection) -> None:
    """With as many rows in a record as the source takes; without blank lines; up to a quote that is not closed."""
    definitions = (project / "definitions.py").read_text().replace("View, count", "View, count, csv")
    (project / "definitions.py").write_text(
        definitions.replace('"at")', '"at", decoder=csv(header=True), max_events_per_record=2)')
    )
    (project / "export.csv").write_bytes(b'at,x\r\n1,a\r\n2,"b\r\nb"\r\n\r\n3,c\r\n')
    code, document, errors = feed("export.csv", FORCED)
    assert (code, document["sent"], errors) == (0, 2, "")
    sent = [b'at,x\n1,a\n2,"b\r\nb"', b"at,x\n3,c"]
    assert sorted(values(broker, project.name)) == sent
    (project / "broken.csv").write_bytes(b'at,x\n1,a\n2,"b\n3,c\n')
    code, document, _ = feed("broken.csv", FORCED)
    assert (code, document["error"].partition(": ")[0]) == (1, "line 3 of broken.csv")
    assert document["error"].endswith("; 1 records before it were sent")
    assert sorted(values(broker, project.name)) == [b"at,x\n1,a", *sent]


def test_a_file_of_rejects_is_refused_before_anything_is_sent(feed, project: Path, broker: kafka.BrokerConnection) -> None:
    """By what its first records are, also from a pipe; told so, feed sends it."""
    good, bad = b'{"at": "2026-11-01T00:00:00Z"}\n', b"id,at\n"
    (project / "wrong.csv").write_bytes(bad * 600 + good * 500)
    for file, given in (("wrong.csv", b""), ("-", bad * 600 + good * 500)):
        code, document, errors = feed(file, given=given)
        assert (code, document["code"]) == (1, "file-unusable")
        expected = f"600 of the first 1000 records of {file} cannot be decoded, such as line 1: json: "
        assert document["error"].startswith(expected)
        assert document["error"].endswith("or send all with --allow-rejects")
        assert errors.startswith("tandem: ")
    (project / "packed").write_bytes(gzip.compress(good))
    assert "by its first bytes it is gzip" in feed("packed")[1]["error"]
    assert values(broker, project.name) == []
    assert feed("packed", FORCED)[:2][0] == 0
    assert feed("wrong.csv", FORCED)[1]["sent"] == 1100


def test_a_few_rejects_are_sent_and_named(feed, project: Path, broker: kafka.BrokerConnection) -> None:
    good, bad = b'{"at": "2026-11-01T00:00:00Z"}\n', b'{"at": "noon"}\n'
    code, document, errors = feed("-", given=good * 9 + bad)
    assert (code, document["sent"], "rejected" in document) == (0, 10, False)
    assert errors.startswith("tandem: 1 of the first 10 records of - cannot be decoded, such as line 10: ")


def test_with_wait_feed_counts_the_rejects_of_all_records(feed, project: Path) -> None:
    """Also of those after the sample, and where nobody counts the records in time."""
    good, bad = b'{"at": "2026-11-01T00:00:00Z"}\n', b'{"at": "noon"}\n'
    code, document, _ = feed("-", "--wait", "--within", "0.2", given=good * 1200 + bad * 700 + good + b"\n")
    assert (code, document["sent"], document["rejected"]) == (3, 1902, 701)
    assert document["reasons"] == {"wrong_type": 700, "empty": 1} or document["reasons"]["empty"] == 1


def test_a_folder_is_sent_file_by_file_whatever_each_is(feed, project: Path, broker: kafka.BrokerConnection) -> None:
    """Each is named once; nothing is sent if one of them is refused."""
    folder = project / "export"
    (folder / "day=2026-11-01").mkdir(parents=True)
    event = '{"at": "2026-11-01T00:00:0%dZ"}'
    (folder / "a.json").write_text(f"[{event % 1},\n{event % 2}]")
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(f"{event % 3}\n".encode()))
    at = pa.array([datetime(2026, 11, 1, 0, 0, 4, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"at": at}), folder / "day=2026-11-01" / "part-0.parquet")
    (folder / "_SUCCESS").touch()
    code, document, errors = feed("export")
    assert (code, document["sent"]) == (0, 4)
    assert document["files"] == [
        {"file": "export/a.json", "sent": 2},
        {"file": "export/b.jsonl.gz", "sent": 1},
        {"file": "export/day=2026-11-01/part-0.parquet", "sent": 1},
    ]
    assert errors.startswith("tandem: values in names of folders, such as day=2026-11-01, are not in the rows")
    expected = [(event % number).encode() for number in (1, 2, 3)] + [b'{"at":"2026-11-01T00:00:04.000000Z"}']
    assert sorted(values(broker, project.name)) == sorted(expected)

    (folder / "c.json").write_text("[1,\n2]")
    assert feed("export")[1]["error"].startswith("2 of the first 2 records of export/c.json cannot be decoded, such as line 1: ")
    assert len(values(broker, project.name)) == 4
    (folder / "_delta_log").mkdir()
    assert feed("export")[1]["error"].startswith("export is a Delta table")


def test_a_broken_array_is_sent_up_to_the_place(feed, project: Path, broker: kafka.BrokerConnection) -> None:
    (project / "a.json").write_text('[{"at": "2026-11-01T00:00:00Z"},\n{"at"}]')
    code, document, _ = feed("a.json")
    assert (code, document["error"].partition(": ")[0]) == (1, "line 2 of a.json")
    assert document["error"].endswith("; 1 records before it were sent")
    assert values(broker, project.name) == [b'{"at": "2026-11-01T00:00:00Z"}']


def test_a_source_without_key_asks_no_registry_while_it_sends(project: Path, feed: Any) -> None:
    """Nothing but its check of the first records needs a schema."""
    definitions = project / "definitions.py"
    with schema_server() as server:
        server.down = 503
        decoder = f'event_time="at", decoder=json(registry="{server.address}")'
        text = definitions.read_text().replace('event_time="at"', decoder).replace("View, count", "View, count, json")
        definitions.write_text(text)
        code, document, _ = feed("-", FORCED, given=b'\0\0\0\0\x07{"at":"2026-11-01T00:00:00Z"}\n' * 3)
        assert (code, document["sent"], server.asked) == (0, 3, [])
        code, document, _ = feed("-", given=b'\0\0\0\0\x07{"at":"2026-11-01T00:00:00Z"}\n' * 3)
        assert code == 1
        assert "answered 503 for /schemas/ids/7" in json.dumps(document)
