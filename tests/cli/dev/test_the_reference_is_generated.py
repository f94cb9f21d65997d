"""docs/reference.md equals the docstrings."""

import inspect
from pathlib import Path

import tandem
import tandem.spark
import tandem.testing
from tandem.cli.command_registry import COMMANDS
from tandem.cli.dev import reference

PAGE = Path(__file__).parents[3] / "docs" / "reference.md"


def test_the_page_equals_the_generated_one() -> None:
    assert PAGE.read_text("utf-8") == reference.page(), "run `python -m tandem.cli.dev.reference > docs/reference.md`"


def test_every_public_name_is_in_the_page_with_a_text() -> None:
    blocks = reference.page().split("\n##")
    told = {block.split("`")[1]: block for block in blocks if "`" in block}
    assert {f"tandem.{name}" for name in tandem.__all__} <= set(told)
    for_tests = {name for name in tandem.testing.__all__ if inspect.isfunction(getattr(tandem.testing, name))}
    assert {name.removeprefix("tandem.testing.") for name in told if name.startswith("tandem.testing.")} == for_tests
    assert {f"tandem.spark.{name}" for name in tandem.spark.__all__} <= set(told)
    assert {f"tandem {name}" for name in COMMANDS} <= set(told)
    assert not [name for name, block in told.items() if len(block.split()) < 5]
    assert "* `--archive`: " in told["tandem recompute"], "the option's name, which is not that of its parameter"
