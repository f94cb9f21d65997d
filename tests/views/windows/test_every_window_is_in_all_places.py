"""Each window that definitions can name is in the plain oracle, which `verify` asks, and on its page, with a call that works."""

import re
from datetime import UTC, datetime, timedelta
from types import FunctionType
from typing import Any

import pytest

from tandem.infra.folders import ROOT
from tandem.views.oracle.counted_events import CountedRow
from tandem.views.oracle.windows import windows
from tandem.views.windows import registry

PAGE = (ROOT / "docs" / "windows.md").read_text("utf-8")
NAMES = {name: made for name, made in vars(registry).items() if isinstance(made, FunctionType)}
ROW = CountedRow((), datetime(2026, 11, 1, tzinfo=UTC), 0, ("T", 0, 0, 0), 1.5, {}, 0)


def documented(name: str) -> Any:
    """The window of the first call on the page whose arguments are written out."""
    for call in re.findall(rf"`({name}\([^`]*\))`", PAGE):
        try:
            return eval(call, {**NAMES, "timedelta": timedelta})
        except NameError:  # an argument that stands for any
            continue
    raise AssertionError(f"docs/windows.md has no call of {name} that can be copied")


@pytest.mark.parametrize("name", NAMES)
def test_oracle_and_page_have_the_window(name: str) -> None:
    assert f"\n| `{name}` | " in PAGE.partition("## At a glance")[2].partition("\n| here |")[0]
    found = [held for _, held in windows(documented(name), [ROW])]
    assert found == [[ROW]] * len(found) != []
