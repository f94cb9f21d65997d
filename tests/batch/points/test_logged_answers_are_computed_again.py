"""Each answer that a server logged is computed again from the log, to the bit; what differs is listed."""

import json
import random
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tandem.batch.points.check_answers import BEYOND, CheckedAnswers, check_answers
from tandem.cli.__main__ import main
from tandem.cli.batch.checked_answers import load_answers, output
from tandem.infra import clock
from tandem.infra.settings import ServingSettings, Settings
from tandem.ledger.logged_answers import LoggedAnswer
from tandem.serving.http.requests.answer_log import answer_log
from tests import one_process
from tests.one_process import MemoryBroker
from tests.serving.http.served import Asker, Served
from tests.speed.sales import DEFINITIONS, START, sale
from tests.speed.test_in_one_process import Layer

MORE = """
from tandem import approx_count_distinct, derived, mean, rollup, session

visits = View(source=sales, keys={{"shop": "shop"}}, window=session(minutes=2), measures={{"n": count(), "sum": total("amount")}})
usual = View(
    source=sales,
    keys={{"shop": "upper(shop)", "odd": "amount % 2 = 1"}},
    measures={{"mean": mean("amount"), "ids": approx_count_distinct("id"), "twice": derived("mean * 2")}},
)
hours = rollup(per_minute, keys=(), window=tumbling(minutes=10))
recent = View(
    source=sales, keys={{"shop": "shop"}}, window=tumbling(minutes=1), keep=timedelta(minutes=2), measures={{"n": count()}}
)
VIEWS = (per_minute, per_shop, visits, usual, hours, recent)
"""


@dataclass
class LoggedLayer(Layer):
    """A speed layer with the log of its server's answers."""

    @property
    def files(self) -> dict[str, bytes]:
        text = DEFINITIONS + MORE
        return {"definitions.py": text.format(topic=self.topic.topic.name).encode(), "tandem.toml": b""}

    @property
    def log(self) -> Path:
        return self.settings.folder / "logs" / "answers.log"

    def check(self, answers: Sequence[LoggedAnswer]) -> CheckedAnswers:
        return check_answers(one_process.run(self.settings, "points"), answers)


@pytest.fixture
def layer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoggedLayer:
    broker = MemoryBroker()
    broker.stand_in(monkeypatch)
    one_process.speed_stands_in(monkeypatch, broker)
    return LoggedLayer(broker, broker.new_topic(partitions=2), Settings(state=str(tmp_path)))


def ask(asker: Asker, layer: LoggedLayer, dice: random.Random) -> int:
    """Look up in each way at the newest position. Returns the number of rows asked for, those that are absent included."""
    fresh = {"min_position": json.dumps(layer.end.to_json())}
    minute = (START + timedelta(minutes=dice.randrange(10))).isoformat().replace("+00:00", "Z")
    asked_row = {"key.shop": dice.choice("abz"), "window": minute}
    assert asker.get("/views/per_minute/row", params={**asked_row, **fresh}).status_code == 200
    answers = [
        asker.get("/views/per_minute/row", params=asked_row),
        asker.get("/views/per_minute/row", params={**asked_row, "measures": "sum"}),
        asker.get("/views/per_shop/row", params={"key.shop": dice.choice("abcz")}),
        asker.get("/views/recent/row", params={"key.shop": "a", "window": START.isoformat().replace("+00:00", "Z")}),
        asker.get("/views/hours/row", params={"window": "2026-11-01T00:00:00Z", "layer": "batch"}),
        asker.get("/views/usual/row", params={"key.shop": "A", "key.odd": dice.choice(["true", "false"])}),
    ]
    assert [answer.status_code for answer in answers] == [200] * 6
    looked = [
        asker.post(f"/views/{view}/lookup", json={"keys": [{"shop": "a"}, {"shop": "z"}]}) for view in ("visits", "per_minute")
    ]
    return 7 + sum(len(answer.json()["rows"]) for answer in looked)


def serve(layer: LoggedLayer, seed: int) -> int:
    """Let a server answer between micro-batches, publications, late sales and copies. Returns the number of rows asked for."""
    dice, asked = random.Random(seed), 0
    settings = msgspec.structs.replace(layer.settings, serving=ServingSettings(log_answers=True))
    world: Any = SimpleNamespace(state=layer.settings.folder, folder=layer.settings.folder, tables=layer.tables)
    layer.start()
    values = [sale(10_000, seconds=1, shop="a")]
    layer.topic.append(values)
    with answer_log(settings, now=clock.now) as log:
        for step in range(7):
            for _ in range(dice.randrange(1, 8)):
                number = dice.randrange(10_000)
                values.append(sale(number, seconds=number * 7 % 600, shop="abc"[number % 3], amount=number % 50))
                layer.topic.append([dice.choice((values[-1], dice.choice(values)))], partition=dice.randrange(2))
            layer.drain()
            if step in (0, 2, 5):
                layer.archive()
                layer.recompute()
            with Served(world, answers=log).asker() as asker:
                asked += ask(asker, layer, dice)
    return asked


def test_each_logged_answer_is_computed_again_and_what_differs_is_listed(layer: LoggedLayer) -> None:
    asked = serve(layer, 1)
    answers = [*load_answers(layer.log)]
    assert len(answers) == asked
    assert stat.S_IMODE(layer.log.stat().st_mode) == 0o600
    assert any(answer.row is None for answer in answers)
    assert any(answer.row is None and answer.kept_from for answer in answers if answer.view == "recent"), "the window has left"
    assert {answer.layer for answer in answers} == {"merged", "batch"}
    beyond = layer.check(answers)
    assert beyond.unchecked.keys() == {BEYOND}
    layer.archive()
    layer.recompute()
    checked = layer.check(answers)
    assert (checked.differences, checked.unchecked) == ((), {})
    assert sum(checked.checked.values()) == asked
    assert checked.inexact.keys() == {"usual"}
    shown = output(checked)
    assert shown.code == 0
    assert f"{asked} answers computed again from the log below publication 5: all are equal" in str(shown.shown)

    there = next(number for number, answer in enumerate(answers) if answer.view == "per_shop" and answer.row)
    absent = next(number for number, answer in enumerate(answers) if answer.row is None)
    row = answers[there].row
    assert row is not None
    answers[there] = msgspec.structs.replace(answers[there], row={**row, "n": row["n"] + 1})
    answers[absent] = msgspec.structs.replace(answers[absent], row={"n": 1, "sum": 5})
    answers.append(msgspec.structs.replace(answers[0], fingerprint="other"))
    answers.append(msgspec.structs.replace(answers[0], layer="speed"))
    other = layer.check(answers)
    assert [each.measures for each in sorted(other.differences, key=lambda each: len(each.measures))] == [("n",), ("n", "sum")]
    assert sum(other.unchecked.values()) == 2
    listed = output(other)
    assert listed.code == 1
    assert f"answered n {row['n'] + 1}, computed {row['n']}" in str(listed.shown)
    assert "answered n 1, computed NULL, sum 5, computed NULL" in str(listed.shown)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("--check answers.log", "answers.log:1 is not a line that a server logs with serving.log_answers: "),
        ("--check nothing.log", "nothing.log cannot be read: No such file or directory"),
        ("--check answers.log --time at --strict", "--check cannot be combined with --time, --strict"),
        ("--check answers.log --known event", "--check cannot be combined with --known"),
        ("spine.csv --time at", "`tandem points` needs --features, --out, or --check LOG alone"),
        (
            "s --time at --features v.n --out answers.log",
            "answers.log is not a folder that can be written; name another with --out",
        ),
        ("s --time at --features v.n --out answers.log/train", "answers.log is not a folder that can be written"),
        ("s --time at --features v.n --out train --key a=b --key a=c", "--key names two columns of key 'a': b and c"),
    ],
)
def test_another_file_or_option_is_refused(
    line: str, why: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("answers.log").write_text('{"event": "question"}\n')
    Path("tandem.toml").write_text("")
    Path("definitions.py").write_text("")
    assert main(["points", *line.split()]) == 1
    assert why in capsys.readouterr().err


def test_an_unfinished_last_line_is_left_out_and_earlier_files_come_first(tmp_path: Path) -> None:
    answer = LoggedAnswer("t", "v", {"k": 1}, None, None, "merged", 1, 1, True, "f", {})
    later = msgspec.structs.replace(answer, at="u", row={"n": 2**70})
    (tmp_path / "answers.log.1").write_text(f"{answer.line()}\n\n")
    (tmp_path / "answers.log").write_text(f"{later.line()}\n{answer.line()[:20]}")
    assert [*load_answers(tmp_path / "answers.log")] == [answer, later]
