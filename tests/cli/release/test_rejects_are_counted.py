"""`tandem quarantine --retry --count` counts what new definitions can read, each event once, and nothing without need."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tandem.infra import kafka
from tandem.ledger.publish.publications import Publications
from tests.batch.shop import DEFINITIONS, Shop
from tests.stack import PYTHONPATH, environ, new_topic


def sale(number: int, **more: Any) -> bytes:
    return json.dumps({"id": str(number), "at": f"2026-03-01T00:00:{number:02}Z", "shop": "a", **more}).encode()


def ask(shop: Shop, *words: str) -> Any:
    """The document of a command in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "tandem.cli", *words, "--json"],
        cwd=shop.folder,
        env={**environ(), "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


@pytest.mark.broker
@pytest.mark.slow
def test_what_became_readable_counts(broker: kafka.BrokerConnection, tmp_path: Path) -> None:
    shop = Shop.open(broker, new_topic(broker), tmp_path)
    shop.sell({0: [sale(1, cents=5), sale(2), sale(3, cents=7), b"{", sale(2)], 1: [sale(4), sale(3, cents=7)]})
    ask(shop, "recompute", "--archive")
    (row,) = ask(shop, "query", "per_hour")["rows"]
    assert (row["n"], row["cents"]) == (2, 12)

    same = ask(shop, "quarantine", "--retry", "--count")
    assert (same["tried"], same["events"], same["applied"]) == (4, 0, None)

    shop.define(DEFINITIONS.replace("cents: int", "cents: int = 1"))
    looked = ask(shop, "quarantine", "--retry")
    assert (looked["events"], looked["reasons"], "applied" in looked) == (3, {"json": 1}, False)
    assert Publications(shop.tables).history()[-1].release == 1
    done = ask(shop, "quarantine", "--retry", "--count")
    assert (done["events"], done["applied"]["promoted"]) == (3, True)
    (row,) = ask(shop, "query", "per_hour")["rows"]
    assert (row["n"], row["cents"]) == (4, 14)
    again = ask(shop, "quarantine", "--retry", "--count")
    assert (again["decoder_changed"], again["applied"]) == (False, None)


def test_records_are_counted_only_where_they_are_decoded_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "definitions.py").write_text(DEFINITIONS.replace("TOPIC", "sales"))
    (tmp_path / "tandem.toml").touch()
    assert main(["quarantine", "--count", "--project", str(tmp_path)]) == 1
    assert "--count needs --retry" in capsys.readouterr().err
