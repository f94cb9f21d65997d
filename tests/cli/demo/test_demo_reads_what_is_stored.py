"""The demo reads what sinks and alerts have stored once their tokens count enough, and writes to no target of the project."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tandem.cli.command.call import Call
from tandem.cli.demo.checks.answers import Row, compare
from tandem.cli.demo.checks.stored_edges import AlertCheck, alert_document, comparable_alerts, compare_alert
from tandem.cli.demo.checks.stored_rows import ComparedSink, comparable_sinks, rows_of_topic
from tandem.infra import kafka
from tandem.infra.settings import KafkaSettings, Settings
from tandem.infra.settings.toml_tables.sinks import SinkSettings
from tandem.ledger.log.positions import LOG_START
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.outcome import given
from tandem.serving.read.row_filter import RowsWanted
from tandem.serving.sinks.changes_to_send import follow
from tandem.serving.sinks.definition import sinks_of
from tandem.serving.sinks.kafka_topic import open_topic
from tandem.serving.sinks.target import SinkRefused
from tandem.views.project.project import load
from tandem.views.sinks.delta_table import SinkTable
from tests.serving.sinks.past import connected
from tests.serving.world import DEFINITIONS, World, hit

OUTPUTS = """
from tandem import Alert, Sink, delta_table, kafka_topic

lake = Sink(per_page, to=delta_table("lake"))
busy = Sink(per_page, to=delta_table("busy"), where="n > 1")
topic = Sink(per_page, to=kafka_topic("pages"))
many = Alert(per_page, when="n > 1")
held_many = Alert(per_page, when="n > 1", clear="n < 1")
"""
MANY = {"busy": lambda row: row["n"] > 1, "many": lambda row: row["n"] > 1, "held_many": lambda row: row["n"] > 1}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("TANDEM_SINKS_TRIAL", "trial")
    made = World(tmp_path, definitions=DEFINITIONS + OUTPUTS + f'far = Sink(per_page, to=delta_table("{tmp_path}/far"))\n')
    made.append(0, hit("/a", 1), hit(None, 2), hit("/a", 3))
    made.trigger()
    return made


def run(world: World, sink: str) -> int:
    return main(["sink", sink, "--once", "--project", str(world.folder)])


def compared(world: World) -> dict[str, ComparedSink]:
    call = Call(world.folder, json=True, debug=False, environ={"TANDEM_SINKS_TRIAL": "trial"})
    assert comparable_sinks(call, {}).keys() == {"lake", "topic"}
    return comparable_sinks(call, MANY)


def answers(world: World) -> list[dict[str, Any]]:
    return given(Reader(world.tables).answer("per_page")).rows()


def agree(world: World, truth: Sequence[Row], rows: Sequence[Row] | None) -> bool:
    assert rows is not None
    return compare("tail", {"per_page": load(world.folder).views["per_page"]}, {"per_page": truth}, {"per_page": rows}).passed


def test_a_table_is_read_once_its_token_counts_enough(world: World) -> None:
    sinks = compared(world)
    lake, busy = sinks["lake"], sinks["busy"]
    assert lake.read(LOG_START) is None
    assert [run(world, name) for name in ("lake", "busy")] == [0, 0]
    assert lake.read(world.end) is not None
    world.append(0, hit("/b", 4), hit("/a", 5))
    world.trigger()
    assert lake.read(world.end) is None
    assert [run(world, name) for name in ("lake", "busy")] == [0, 0]
    rows, truth = lake.read(world.end), answers(world)
    assert rows is not None
    assert agree(world, truth, rows)
    assert not agree(world, truth, rows[1:])
    assert agree(world, [row for row in truth if busy.meets(row)], busy.read(world.end))


@pytest.mark.slow
@pytest.mark.broker
def test_a_topic_is_folded_once_its_token_counts_enough(broker: kafka.BrokerConnection, world: World) -> None:
    few = RowsWanted(where="n < 2")

    def write(name: str, *, tombstones: bool = True) -> None:
        published, target = connected(world, "per_page"), open_topic(broker, Settings(), name, "update")
        if not tombstones:
            target.write = lambda rows, gone, stamp, write=target.write: write(rows, gone.slice(0, 0), stamp)  # type: ignore[method-assign, union-attr]
        list(follow(published, target, few))

    assert rows_of_topic(broker.address, "demo-few", LOG_START) is None
    for name in ("demo-few", "demo-forgets"):
        write(name)
    assert len(rows_of_topic(broker.address, "demo-few", world.end) or ()) == 1
    world.append(0, hit(None, 5), hit("/b", 4))
    world.trigger()
    assert rows_of_topic(broker.address, "demo-few", world.end) is None
    write("demo-few")
    write("demo-forgets", tombstones=False)
    truth = [row for row in answers(world) if row["n"] < 2]
    assert agree(world, truth, rows_of_topic(broker.address, "demo-few", world.end))
    assert not agree(world, truth, rows_of_topic(broker.address, "demo-forgets", world.end))


def test_a_trial_writes_into_its_folder_alone(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert [run(world, sink) for sink in ("lake", "busy", "far")] == [0, 0, 1]
    assert "no sink 'far'" in capsys.readouterr().err
    assert sorted(path.name for path in (world.folder / "trial").iterdir()) == ["busy", "lake"]
    assert not any((world.folder / name).exists() for name in ("lake", "busy", "far"))


def test_a_trial_reaches_no_target_of_the_project(world: World) -> None:
    (world.folder / "definitions.py").write_text(world.definitions.replace('delta_table("lake")', 'delta_table("a/../../lake")'))
    project = load(world.folder)
    aside = sinks_of(project, Settings(sinks=SinkSettings(trial="../trial")), world.folder)
    assert {name for name, each in aside.items() if isinstance(each.sink.to, SinkTable)} == {"busy"}
    for trial in (".", "trial/..", str(world.folder)):
        with pytest.raises(SinkRefused, match="the project's own folder, where the targets are"):
            sinks_of(project, Settings(sinks=SinkSettings(trial=trial)), world.folder)


def test_a_trial_writes_to_topics_of_its_own_at_the_embedded_broker_alone(world: World) -> None:
    def targets(settings: Settings) -> dict[str, str]:
        return {name: str(each.sink.to) for name, each in sinks_of(load(world.folder), settings, world.folder).items()}

    trial = SinkSettings(trial="trial")
    assert targets(Settings(sinks=trial))["topic"] == "kafka_topic('trial.pages')"
    assert "topic" not in targets(Settings(sinks=trial, kafka=KafkaSettings(bootstrap="kafka:9092")))
    assert targets(Settings())["topic"] == "kafka_topic('pages')"


def test_raised_rows_are_those_that_meet_the_condition(world: World) -> None:
    def check(truth: Sequence[Row], document: Mapping[str, Any]) -> AlertCheck:
        return compare_alert("tail", alert, MANY["many"], truth, document)

    alerts = load(world.folder).alerts
    assert comparable_alerts(alerts, {}) == {}
    ((name, alert),) = comparable_alerts(alerts, MANY).items()
    assert alert_document(world.tables, name, LOG_START) is None
    assert main(["alerts", "run", "--once", "--project", str(world.folder)]) == 0
    first = alert_document(world.tables, name, world.end)
    assert first is not None
    assert (check(answers(world), first).raised, check(answers(world), first).passed) == (1, True)
    world.append(0, hit(None, 5), hit("/b", 4))
    world.trigger()
    assert alert_document(world.tables, name, world.end) is None
    world.log[0][:1] = [b"{"]  # a recompute repairs what was counted wrongly
    world.recompute(world.writer.end)
    assert main(["alerts", "run", "--once", "--project", str(world.folder)]) == 0
    document, truth = alert_document(world.tables, name, world.end), answers(world)
    assert document is not None
    assert sorted(each["edge"]["kind"] for each in document["edges"]) == ["corrected", "raised", "raised"]
    assert check(truth, document) == AlertCheck("tail", 3, 0, [], 1)
    for edge in document["edges"]:
        assert check(truth, {**document, "edges": [each for each in document["edges"] if each is not edge]}).differ == 1
    twice = deepcopy(document["edges"][-1])
    twice["edge"]["id"] = twice["edge"]["of"] = "another"
    assert check(truth, {**document, "edges": [*document["edges"], twice]}).differ == 1
    assert check([row | {"n": 1} for row in truth], document).differ == 1


def test_a_condition_of_no_sink_or_alert_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    """Else a wrong name would leave a sink or an alert uncompared, and the demo would pass."""
    conditions = "CONDITIONS = {'busy': print, 'mani': print}"
    (world.folder / "generator.py").write_text(f"SOURCE, generate, Truth = 'hits', print, print\n{conditions}\n")
    assert main(["demo", "--once", "--project", str(world.folder)]) != 0
    shown = " ".join(capsys.readouterr().err.split())
    assert "CONDITIONS of generator.py: no sink or alert 'mani'; sinks and alerts: many" in shown
