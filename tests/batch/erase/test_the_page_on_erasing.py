"""The commands of docs/erase.md, run as they stand there, show what it shows."""

import shlex

import pytest

from tandem.cli.__main__ import main
from tests.batch.erase.test_erased_records_are_gone import filled, selecting
from tests.batch.shop import MemoryShop, Shop
from tests.documented import Command, steps


def test_the_outputs_on_the_page_are_true(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    filled(shop, 600, 40)
    run = []
    for step in steps("erase.md"):
        assert isinstance(step, Command)
        program, *arguments = shlex.split(step.line)
        assert program == "tandem"
        run.append(arguments[-1])
        if "--yes" in arguments and isinstance(shop, MemoryShop):
            shop.forget(selecting(arguments[arguments.index("--where") + 1]))
            continue
        assert main([*arguments, "--project", str(shop.folder)]) == 0, capsys.readouterr().err
        shown = capsys.readouterr().out
        assert step.missing(shown) is None, shown
    assert run == ["shop = 'shop 1'", "--yes", "shop = 'shop 1'"]


@pytest.mark.parametrize("condition", [[], ["--where", "cents = 3"]])
def test_a_proof_without_a_text_says_that_the_counts_alone_are_it(
    shop: Shop, condition: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It reads no file, and exits with 0 because no row is left."""
    filled(shop, 610, 30)
    shop.forget(selecting("cents = 3 OR cents < 100"))
    assert main(["forget", "sales", "--prove", "sales-erasure-1", *condition, "--project", str(shop.folder)]) == 0
    shown = capsys.readouterr().out
    assert ": 0 rows at these positions" in shown
    assert "no text was searched, so the counts alone are the proof; a text in --where, or a line of --ids" in shown
