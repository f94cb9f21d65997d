"""docs/sinks.md does what it shows, and `tandem sink` follows a view until it is stopped."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tandem.cli.__main__ import main
from tandem.infra import kafka
from tandem.infra.folders import ROOT
from tests.documented import File, steps
from tests.serving.world import World, hit
from tests.stack import consumed, kafka_toml


@pytest.fixture
def world(tmp_path: Path) -> World:
    """The page's project, with three hits."""
    (definitions,) = (step.text for step in steps("sinks.md") if isinstance(step, File))
    made = World(tmp_path, definitions=definitions)
    made.append(0, hit("/a", 1), hit("/b", 2), hit("/a", 3))
    made.trigger()
    return made


def content(folder: Path) -> dict[str, int]:
    rows = pa.table(DeltaTable(str(folder)).to_pyarrow_table()).to_pylist()
    return {row["page"]: row["n"] for row in rows}


@pytest.mark.broker
def test_each_command_prints_what_the_page_shows(
    world: World, broker: kafka.BrokerConnection, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(world.folder)
    (world.folder / "tandem.toml").write_text(kafka_toml(broker))
    for step in steps("sinks.md"):
        if not isinstance(step, File):
            step.show(capsys)
    assert content(world.folder / "lake" / "per_page") == {"/a": 2, "/b": 1}
    assert content(world.folder / "lake" / "busy_pages") == {"/a": 2}
    records = consumed(broker, kafka.topic(broker, "per-page"))
    assert {json.loads(record.key)["page"]: json.loads(record.value)["n"] for record in records} == {"/a": 2, "/b": 1}


def test_a_sink_follows_until_it_is_stopped(world: World) -> None:
    command = [sys.executable, "-m", "tandem.cli", "sink", "lake", "--json", "--project", str(world.folder)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        first = json.loads(process.stdout.readline())
        assert (first["rows"], first["compared"]) == (2, True)
        world.append(0, hit("/c", 1))
        world.trigger()
        second = json.loads(process.stdout.readline())
        assert (second["rows"], second["gone"], second["compared"]) == (1, 0, False)
        assert content(world.folder / "lake" / "per_page") == {"/a": 2, "/b": 1, "/c": 1}
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=300)
        assert process.returncode == 0
    finally:
        process.kill()


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('"lake/busy_pages"', '"lake/per_page"', "is the target of sink 'lake'"),
        (
            '"lake/busy_pages"',
            '"lake/busy?pages"',
            "has a '?', and the client of Delta takes no # % ? [ ] ^ | or backslash in a folder",
        ),
        ('"lake/busy_pages"', '"lake/old/../per_page"', "is also the folder of sink 'busy', or one has the other in it"),
        ('"lake/busy_pages"', '"lake/per_page/busy"', "is also the folder of sink 'busy', or one has the other in it"),
        ('"n > 1"', '"views > 1"', "views"),
        ('"n > 1"', '"n + 1"', "expected a condition"),
        ('where="n > 1"', 'keys={"city": 1}', "has no key 'city'; keys: page"),
        ('delta_table("lake/busy_pages")', '"lake"', "to is 'lake'; expected a target"),
        ('"lake/busy_pages"', '"s3://a:b@c/d"', "has a credential"),
        ('"lake/busy_pages"', '"ftp://lake/d"', "of one of s3, gs, az, abfss"),
        ('"lake/busy_pages"', '".tandem/tables/x"', "is a folder of the project's own tables"),
        ("busy = Sink(per_page", 'busy = Sink(View(source=hits, measures={"n": count()})', "its view is not in VIEWS"),
        ('where="n > 1"', 'name="lake"', "the name is taken"),
        (
            'kafka_topic("per-page")',
            'kafka_topic("hits")',
            "source 'hits' reads topic 'hits', so the sink would feed its own view",
        ),
        ('kafka_topic("per-page")', 'kafka_topic("per page")', "expected the name of a topic"),
        ('output="changes"', 'output="all"', "output 'all' is not for kafka_topic('per-page-changes'); outputs: update, append"),
        ('where="n > 1"', 'output="append"', "output 'append' is not for delta_table('lake/busy_pages'); outputs: update"),
    ],
)
def test_check_refuses_it_in_one_sentence(
    world: World, capsys: pytest.CaptureFixture[str], old: str, new: str, sentence: str
) -> None:
    assert old in world.definitions
    views = "\nVIEWS = (per_page,)\n" if "VIEWS" in sentence else ""
    (world.folder / "definitions.py").write_text(world.definitions.replace(old, new) + views)
    assert main(["check", "--project", str(world.folder)]) == 1
    said = capsys.readouterr().err
    assert sentence in said
    assert len(said.strip().splitlines()) == 1


def test_an_unknown_sink_is_one_sentence(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sink", "lak", "--project", str(world.folder)]) == 1
    assert "no sink 'lak' in the project; sinks: lake, " in capsys.readouterr().err
