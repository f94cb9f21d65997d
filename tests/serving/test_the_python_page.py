"""The programs in docs/python.md work."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tandem.infra.folders import ROOT
from tests.serving.world import forty_hits, hit

SHOWN = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```python(?: session)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.spark
def test_every_example_gives_its_output(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "site").mkdir()
    world = forty_hits(tmp_path / "site")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"session": spark}
    *examples, last = BLOCK.findall((ROOT / "docs" / "python.md").read_text())
    assert len(examples) == 9
    for example in examples:
        exec(example, names)  # the page's own text
    assert capsys.readouterr().out in SHOWN.findall((ROOT / "docs" / "python.md").read_text())
    world.append(1, hit("/later", 7), hit("/new", 1))
    world.trigger()
    # The page leaves off where the next change would be waited for.
    exec("told = next(tell_me)\npages = {row['page']: row['n'] for row in told.rows.rows()}", names)
    assert names["pages"] == {"/later": 11, "/new": 1}
    exec(last, names)
