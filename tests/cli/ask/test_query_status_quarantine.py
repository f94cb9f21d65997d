"""The output of `query`, `status` and `quarantine`: documents, exit codes, sentences, and text for pipes and terminals."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tandem.cli.__main__ import main
from tandem.infra.process.background import Process
from tandem.infra.settings import Settings
from tandem.ledger.log.positions import LOG_START
from tests.infra.kafka.begun import begun
from tests.serving import oracle
from tests.serving.world import DEFINITIONS, World, forty_hits, hit, position

AGE = r"[0-9.]+ s old"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return forty_hits(tmp_path_factory.mktemp("world"))


def run(world: World, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any, str]:
    code = main([*arguments, "--project", str(world.folder), "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


def shown(world: World, capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """What a pipe gets."""
    assert main([*arguments, "--project", str(world.folder)]) == 0
    return capsys.readouterr().out.splitlines()


def test_query_prints_every_row_and_the_provenance(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, err = run(world, capsys, "query", "per_page")
    assert (code, err) == (0, "")
    assert list(found) == ["view", "rows", "provenance", "definitions"]
    assert oracle.unlabelled(found["rows"]) == oracle.per_page(world.values(LOG_START, world.end))
    assert {row["window_state"] for row in found["rows"]} == {"open"}
    assert (found["provenance"]["watermark"], found["provenance"]["after_final"]) == ("2026-11-01T12:00:00Z", 0)
    assert found["provenance"]["cut"] == {"T": {"0": 31}}
    assert found["provenance"]["realtime"] == {"T": {"0": 31, "1": 10}}
    assert found["definitions"] == {"changed": [], "added": [], "removed": [], "sources": [], "problem": None}


def test_query_answers_from_a_past_publication(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    for named in (["--publication", "2"], ["--as-of", "2026-11-02"]):
        code, found, _ = run(world, capsys, "query", "per_page", *named)
        assert code == 0
        assert oracle.unlabelled(found["rows"]) == oracle.per_page(world.values(LOG_START, position(31)))
        assert (found["provenance"]["publication"], found["provenance"]["layer"]) == (2, "batch")
    refused = {
        ("--publication", "9"): "it does not exist; retained: 1, 2",
        ("--publication", "2", "--layer", "merged"): "has only the layer batch, not merged",
        (
            "--as-of",
            "2020-01-01",
        ): "nothing was published at 2020-01-01T00:00:00+00:00: the first publication is of 2026-11-01T12:00",
        ("--as-of", "2026-11-02", "--publication", "2"): "--publication and --as-of cannot be combined",
    }
    for options, sentence in refused.items():
        code, found, _ = run(world, capsys, "query", "per_page", *options)
        assert code == 1
        assert sentence in found["error"]


def test_query_selects_by_key_window_layer_and_limit(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    _, found, _ = run(world, capsys, "query", "per_page", "--key", "page=/later", "--layer", "batch")
    assert found["rows"] == []
    _, found, _ = run(
        world, capsys, "query", "per_page", "--key", "page=/07", "--from", "2026-11-01", "--to", "2026-11-01T12:00:01Z"
    )
    assert [row["bytes"] for row in found["rows"]] == [7]
    _, found, _ = run(world, capsys, "query", "per_page", "--limit", "3")
    assert [row["page"] for row in found["rows"]] == ["/00", "/01", "/02"]
    _, found, _ = run(world, capsys, "query", "inverse", "--key", "odd=true", "--layer", "speed")
    assert found["rows"] == oracle.inverse(world.values(position(31), world.end))[1:]


def test_query_takes_a_range_as_one_window(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    span = ("--from", "2026-11-01T11:00", "--to", "2026-11-01T14:00")
    _, found, _ = run(world, capsys, "query", "per_page", "--key", "page=/07", *span, "--one")
    assert [(row["window_start"], row["window_end"], row["n"]) for row in found["rows"]] == [
        ("2026-11-01T11:00:00Z", "2026-11-01T14:00:00Z", 1)
    ]
    assert run(world, capsys, "query", "per_page", "--last", "3h")[1]["rows"] == []
    code, found, _ = run(world, capsys, "query", "per_page", "--last", "90m")
    assert (code, found["error"]) == (1, "the last 1:30:00 are not possible: view 'per_page' has slices of 1:00:00")
    assert run(world, capsys, "query", "per_page", "--last", "3h", "--one")[0] == 1


def test_a_pipe_gets_all_rows_and_a_terminal_the_first_with_the_total(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    header, *lines = shown(world, capsys, "query", "per_page")
    assert header.split() == ["page", "window_start", "window_end", "window_state", "n", "bytes", "largest", "price", "mean"]
    assert len([line for line in lines if line.startswith("/")]) == 31
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "20 of 31 rows" in "".join(shown(world, capsys, "query", "per_page"))
    assert "5 of 31 rows" in "".join(shown(world, capsys, "query", "per_page", "--limit", "5"))
    assert "rows" not in "".join(shown(world, capsys, "query", "per_page", "--limit", "40"))


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("query", "per_pag"), 1, "no view 'per_pag' is published; views: per_page, ever, inverse"),
        (("query", "per_page", "--key", "pge=/"), 1, "view 'per_page' has no key 'pge'; keys: page"),
        (
            ("query", "inverse", "--key", "odd=perhaps"),
            1,
            "'perhaps' of key 'odd' of view 'inverse'; expected true or false",
        ),
        (("query", "ever", "--from", "2026-11-01"), 1, "view 'ever' is of all time, so it has no windows to choose from"),
        (("query", "per_page", "--to", "noon"), 1, "invalid time 'noon'; write 2026-11-01"),
        (("query", "per_page", "--layer", "both"), 2, "'both' is not one of 'batch', 'speed', 'merged'"),
        (("quarantine", "--source", "hit"), 1, "no source 'hit'; sources: hits"),
    ],
)
def test_a_wrong_question_is_one_sentence(
    world: World, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], code: int, says: str
) -> None:
    got, found, err = run(world, capsys, *arguments)
    assert got == code
    assert says in found["error"]
    assert says in err


def test_commands_before_the_first_publication_explain_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text(DEFINITIONS)
    assert main(["query", "per_page", "--project", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith("tandem: nothing is published yet")
    assert main(["status", "--project", str(tmp_path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["publication"] is None
    assert found["sources"]["hits"]["decoded"] == 0
    assert main(["quarantine", "--project", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"summary": [], "rejects": [], "total": 0, "next": None}


def test_a_view_without_events_has_no_rows_and_no_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, _ = run(World(tmp_path), capsys, "query", "per_page")
    assert (code, found["rows"], found["provenance"]["age_s"]) == (0, [], None)


def test_definitions_that_differ_are_named_and_change_no_answer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = World(tmp_path)
    made.append(0, hit("/", 1))
    made.trigger()
    (tmp_path / "definitions.py").write_text(DEFINITIONS.replace("bytes > 0", "bytes > 1"))
    for command in (("query", "ever"), ("status",)):
        code, found, err = run(made, capsys, *command)
        assert code == 0
        assert found["definitions"]["changed"] == ["ever"]
        assert "changed views: ever" in err
    (tmp_path / "definitions.py").write_text("import nothing_of_that_name")
    code, found, err = run(made, capsys, "query", "ever")
    assert (code, found["rows"][0]["n"]) == (0, 1)
    assert "nothing_of_that_name" in found["definitions"]["problem"]
    assert "nothing_of_that_name" in err


def test_status_counts_each_record_once_and_says_why_the_log_end_is_unknown(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found, _ = run(world, capsys, "status")
    assert code == 0
    hits = found["sources"]["hits"]
    assert (hits["decoded"], hits["quarantined"], hits["archived"]) == (40, {"utf8": 1}, 31)
    assert hits["log_end"] is None
    assert "not running" in hits["log_end_problem"]
    view = found["views"]["per_page"]
    assert (view["cut"], view["positions"]) == ({"T": {"0": 31}}, {"T": {"0": 31, "1": 10}})
    assert (view["lag"], view["batch_version"], view["after_final"]) == (None, 1, 0)
    assert hits["watermark"] == "2026-11-01T12:00:00Z"
    assert found["processes"] == []
    text = "\n".join(shown(world, capsys, "status"))
    assert "hits" in text
    assert "per_page" in text
    assert "publication 2" in text


def test_quarantine_lists_position_reason_detail_and_first_bytes(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, _ = run(world, capsys, "quarantine", "--source", "hits", "--limit", "5")
    (reject,) = found["rejects"]
    assert (code, found["total"]) == (0, 1)
    assert {name: reject[name] for name in ("source", "topic_id", "partition", "offset", "reason")} == {
        "source": "hits",
        "topic_id": "T",
        "partition": 0,
        "offset": 30,
        "reason": "utf8",
    }
    assert reject["first_bytes"] == "{broken \x1b[31m\\xff"
    assert found["summary"] == [{"source": "hits", "reason": "utf8", "records": 1, "newest": reject["timestamp"]}]
    summary, _, line = shown(world, capsys, "quarantine")
    assert summary == f"hits: 1 record utf8, newest {reject['timestamp']}"
    assert "T/0:30" in line
    assert "\x1b" not in line  # a terminal must not obey what a record says


def test_events_ahead_of_their_records_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By status and beside answers, once there are any."""
    world = World(tmp_path)
    for minute, told in ((0, 0), (300, 1)):
        world.append(0, hit("/", 1, minute=minute))
        world.trigger()
        assert main(["status", "--json", "--project", str(tmp_path)]) == 0
        assert json.loads(capsys.readouterr().out)["sources"]["hits"]["ahead"] == told
        assert main(["status", "--project", str(tmp_path)]) == 0
        assert (" ahead " in capsys.readouterr().out) == bool(told)
        assert main(["query", "ever", "--project", str(tmp_path)]) == 0
        shown = capsys.readouterr().out
        assert ("1 of the source's events are ahead of their records' timestamps" in shown) == bool(told)
        assert "watermark 2026-11-01T12:00:00Z" in shown


def test_status_waits_only_briefly_for_a_stopped_broker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It exits with 3 within ten seconds; the kernel accepts connections for a broker that a signal stopped."""
    (tmp_path / "tandem.toml").touch()
    (tmp_path / "definitions.py").write_text(DEFINITIONS)
    settings = Settings(state=str(tmp_path / ".tandem"))
    with (
        closing(socket.create_server(("127.0.0.1", 0))) as port,
        subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as broker,
    ):
        begun(settings, port=port.getsockname()[1], pid=broker.pid)
        broker.send_signal(signal.SIGSTOP)
        os.waitpid(broker.pid, os.WUNTRACED)  # until it stands
        code = main(["status", "--json", "--project", str(tmp_path)])
        broker.kill()
    found = json.loads(capsys.readouterr().out)
    assert code == 3
    assert [part["state"] for part in found["parts"]] == ["stuck", "not_started"]
    assert found["parts"][0]["why"] == "a signal stopped its process"
    assert all(source["log_end_problem"].endswith("did not answer in 2 s") for source in found["sources"].values())


@pytest.mark.parametrize("question", [["query", "per_page", "--key", "page=/01"], ["sql", "SELECT sum(bytes) FROM per_page"]])
def test_a_dead_speed_layer_is_one_line_and_the_answer_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], question: list[str]
) -> None:
    """On stderr, with since when and what to do; a script that reads the answer gets what it got before, and exit code 0."""
    world = forty_hits(tmp_path)
    gone = Process("speed", 2**22 + 1, "of another boot", str(tmp_path / "speed.log"))
    command = [*question, "--project", str(world.folder)]
    assert main(command) == 0
    before = capsys.readouterr()
    run = world.state / "run"
    run.mkdir(exist_ok=True)
    (run / "speed.json").write_bytes(msgspec.json.encode(gone))
    (tmp_path / "speed.log").touch()
    code, after = main(command), capsys.readouterr()
    assert (code, re.sub(AGE, "", after.out)) == (0, re.sub(AGE, "", before.out))
    (line,) = after.err.splitlines()[len(before.err.splitlines()) :]
    assert re.fullmatch(
        r"tandem: the speed layer has been dead since \S+Z: its process has ended; `tandem logs` .* restarts it", line
    )
    assert main(["status", "--project", str(world.folder)]) == 3
