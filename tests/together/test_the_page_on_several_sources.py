"""docs/several-sources.md: its project is what its commands are run on, and they show what the page shows."""

from pathlib import Path

import pytest

from tests.documented import File, steps
from tests.together.two_sources import TwoSources, event

PAGE = "several-sources.md"


def test_each_command_on_sources_shows_what_the_page_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (definitions,) = (step.text for step in steps(PAGE) if isinstance(step, File))
    world = TwoSources(tmp_path, definitions)
    world.append("seen", event("seen", "A", 1, 3), event("seen", "A", 2, 4), event("seen", "B", 3, 5))
    world.append("clicks", event("click", "A", 4, "Ann"))
    for source in ("seen", "clicks"):
        world.commit(source)
    monkeypatch.chdir(tmp_path)
    for step in steps(PAGE):
        if not isinstance(step, File):
            step.show(capsys, code=None)
