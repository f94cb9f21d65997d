"""docs/what-must-hold.md: its project refuses and reports what the page shows."""

import json
import shlex
from pathlib import Path

import pytest

from tandem.batch.archive import write_archive
from tandem.batch.recompute import recompute
from tandem.batch.recompute.expectations import ExpectationUnmet
from tandem.cli.__main__ import main
from tests.batch.shop import MemoryShop, Shop
from tests.documented import Command, File, steps

Hits = list[tuple[str, str, str, int]]


def records(hits: Hits) -> list[bytes]:
    return [
        json.dumps({"id": number, "at": f"2026-11-01T{at}Z", "page": page, "status": status}).encode()
        for number, at, page, status in hits
    ]


def test_the_page_shows_the_refusal_and_its_place_in_the_audits(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    definitions, refused, listed = steps("what-must-hold.md")
    assert isinstance(definitions, File)
    assert isinstance(refused, Command)
    assert isinstance(listed, Command)
    shop.define(definitions.text.replace('"hits"', '"TOPIC"', 1))
    monkeypatch.chdir(tmp_path)

    def recompute_now() -> str:
        write_archive.run(shop.run("archive"), shop.project)
        if not isinstance(shop, MemoryShop):
            main(shlex.split(refused.line)[1:])
            return "".join(capsys.readouterr())
        try:
            return f"publication {recompute.run(shop.run('recompute'), shop.project).publication.number}"
        except ExpectationUnmet as error:
            return f"{error}\n"

    shop.sell({0: records([("1", "08:01:00", "/a", 200), ("2", "08:02:00", "/b", 200), ("3", "09:00:00", "/a", 200)])})
    assert "publication 2" in recompute_now()
    shop.sell({0: records([(str(number), "08:10:00", "/b", 503) for number in range(4, 7)])})
    shown = recompute_now()
    assert refused.missing(shown) is None, shown
    listed.show(capsys)
