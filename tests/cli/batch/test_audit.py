"""`tandem audit` lists and filters the history of audits, the newest first."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tandem.cli.__main__ import main
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.audits import Audits
from tests.ledger.publish.test_audits import FIGURES, ONE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tandem.toml").write_text('state = "state"\n')
    tables = Tables(str(tmp_path / "state" / "tables"))
    for run, error in enumerate((0.0, 0.5, 0.25)):
        one = replace(ONE, at=ONE.at + timedelta(hours=run), version=run, figures=replace(FIGURES, smape=error))
        Audits(tables).record([one, replace(one, view="w", measure="", figures=None, obstacle="bridge")])
    return tmp_path


def shown(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str) -> str:
    assert main(["audit", *arguments, "--project", str(folder)]) == 0
    return capsys.readouterr().out


def test_the_newest_audits_come_first_with_all_fields_in_the_document(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(shown(capsys, folder, "--json"))
    assert [audit["version"] for audit in document["audits"]] == [2, 2, 1, 1, 0, 0]
    assert document["audits"][0]["obstacle"] == "bridge"
    assert document["audits"][1]["figures"]["share"] == 1 / 9
    assert document["audits"][1]["examples"] == [{"row": {"s": None}, "served": 1, "found": "1.50", "only": None}]
    lines = shown(capsys, folder).splitlines()
    assert "not comparable: bridge" in lines[1]
    assert lines[2].split()[:5] == ["2026-11-01T14:00:00Z", "v", "n", "9", "1"]


def test_audits_are_filtered(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(shown(capsys, folder, "v", "--measure", "n", "--since", "2026-11-01T13:00:00Z", "--json"))
    assert [(audit["view"], audit["version"]) for audit in document["audits"]] == [("v", 2), ("v", 1)]
    assert "no audits" in shown(capsys, folder, "x")
