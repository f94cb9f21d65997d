"""`init` writes a project that checks, answers from its sample file, and passes its own test, without Java or Kafka."""

import json
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tandem.views.fingerprint.hashed_parts import fingerprint
from tandem.views.project.project import load
from tests.stack import PYTHONPATH

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/definitions.md").read_text("utf-8")


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("init") / "my shop"
    assert main(["init", str(folder)]) == 0
    return folder


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any, str]:
    code = main([*arguments, "--json"])
    out, err = capsys.readouterr()
    return code, json.loads(out), err


def orders(file: Path) -> list[dict[str, Any]]:
    """The sample's good lines, each order once; what the views must count, found without them."""
    found = {}
    for line in file.read_text().splitlines():
        try:
            order = json.loads(line)
        except ValueError:
            continue
        if order["channel"] in ("shop", "web"):
            found.setdefault(order["order_id"], order)
    return list(found.values())


def test_try_equals_a_few_lines_of_python(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, _ = run(capsys, "try", "sales", str(shop / "orders.jsonl"), "--project", str(shop))
    assert code == 0
    good = orders(shop / "orders.jsonl")
    expected: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for order in good:
        expected.setdefault((order["at"][:13] + ":00:00Z", order["city"].upper()), []).append(order)
    assert [(row["window_start"], row["city"]) for row in found["rows"]] == sorted(expected)
    for row in found["rows"]:
        some = expected[row["window_start"], row["city"]]
        assert row["orders"] == len(some)
        assert row["items"] == sum(order["items"] for order in some)
        assert Decimal(row["revenue"]) == sum(Decimal(order["amount"]) for order in some)
    assert (found["lines"], found["decoded"], found["duplicates"]) == (203, len(good) + 1, 1)
    assert found["quarantined"] == {"invalid_value": 1, "json": 1}
    assert [(reject["line"], reject["reason"]) for reject in found["rejects"]] == [(121, "json"), (161, "invalid_value")]


def test_check_shows_types_and_settings(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, _ = run(capsys, "check", "--project", str(shop))
    assert code == 0
    assert found["views"]["sales"]["keys"]["city"] == {"expression": "upper(city)", "type": "text"}
    assert found["views"]["sales"]["window"] == "tumbling(hours=1)"
    assert found["views"]["sales"]["measures"]["revenue"]["measure"] == 'total("amount")'
    assert found["views"]["sales"]["measures"]["customers"]["exactness"]["kind"] == "hll"
    assert found["sources"]["orders"]["fields"]["amount"] == "decimal128(38, 2)"
    assert found["settings"]["state"] == str(shop / ".tandem")
    assert main(["check", "--project", str(shop)]) == 0
    assert "revenue: decimal, exact" in capsys.readouterr().out


def test_a_mistake_is_one_sentence_with_its_place(shop: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    main(["init", str(broken)])
    capsys.readouterr()
    text = (broken / "definitions.py").read_text()
    (broken / "definitions.py").write_text(text.replace('"upper(city)"', '"upper(cty)"'))
    code, found, err = run(capsys, "check", "--project", str(broken))
    assert code == 1
    assert err == f"tandem: {found['error']}\n"
    for part in ("definitions.py:", "'sales'", "cty", "city"):
        assert part in found["error"]


def test_its_own_tests_pass_by_the_readmes_command(shop: Path) -> None:
    (typed,) = re.findall(r"`(cd my_shop && PYTHONPATH=[^`]*)`", PAGE)
    (shop.parent / "my_shop").symlink_to(shop)
    for beside in (".venv", "src"):
        (shop.parent / beside).symlink_to(ROOT / beside)
    outcome = subprocess.run(["/bin/sh", "-c", typed], cwd=shop.parent, env={}, capture_output=True, check=False)
    assert (outcome.returncode, b"4 passed" in outcome.stdout) == (0, True), outcome


def test_pytest_imports_the_platform_only_when_a_test_uses_a_fixture() -> None:
    loaded = "{'tandem.views.public', 'pyarrow', 'duckdb', 'tandem.infra'} & set(sys.modules)"
    code = f"import sys, tandem.cli.pytest_plugin; print(sorted({loaded}))"
    command = [sys.executable, "-c", code]
    outcome = subprocess.run(command, env={"PYTHONPATH": PYTHONPATH}, capture_output=True, text=True, check=True)
    assert outcome.stdout == "[]\n"


def test_init_overwrites_nothing(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, _ = run(capsys, "init", str(shop))
    assert code == 1
    assert "already has conftest.py, definitions.py" in found["error"]
    assert "name a new folder" in found["error"]


def test_an_unknown_view_or_file_gets_the_valid_ones(shop: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, found, _ = run(capsys, "try", "sale", str(shop / "orders.jsonl"), "--project", str(shop))
    assert found["error"] == "no view 'sale'; views: sales, channels"
    code, found, _ = run(capsys, "try", "sales", str(shop / "none"), "--project", str(shop))
    assert (code, found["error"]) == (1, f"cannot read {shop / 'none'}: No such file or directory")


def test_the_shop_in_sql_is_the_shop(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "init", str(tmp_path / "in_sql"), "--template", "sql")[0] == 0
    in_python, in_sql = load(shop), load(tmp_path / "in_sql")
    for name, view in in_python.views.items():
        assert fingerprint(in_sql.views[name]) == fingerprint(view)
    tried = [
        run(capsys, "try", "sales", str(folder / "orders.jsonl"), "--project", str(folder))
        for folder in (shop, tmp_path / "in_sql")
    ]
    assert tried[0][1]["rows"] == tried[1][1]["rows"]


def test_every_listed_template_is_a_project(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found, _ = run(capsys, "init", "--list")
    assert code == 0
    assert set(found["templates"]) == {"shop", "sql", *(file.parent.name for file in (ROOT / "examples").glob("*/tandem.toml"))}
    assert main(["init", "--list"]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80
    for name in found["templates"]:
        assert main(["init", str(tmp_path / name), "--template", name]) == 0
        steps = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
        assert any("generate" in step for step in steps) == (name not in ("shop", "sql"))
        assert load(tmp_path / name).views
    assert run(capsys, "init", str(tmp_path / "x"), "--template", "shp")[1]["error"].startswith(
        "no template 'shp'; templates: shop"
    )
    assert "tandem init DIR" in run(capsys, "init")[1]["error"]
