"""Which tests reach a line, the likeliest to see a change of it first."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import coverage

from tests.mutation.changes import Change
from tests.mutation.reaching import STOPPED

_LONG_S: Final = 20.0
"""What a test is taken to need that was stopped while it was recorded."""


@dataclass(frozen=True)
class Reach:
    """`lines` has the tests that reach a line of a file, `seconds` how long each test takes, traced."""

    lines: Mapping[str, Mapping[int, Sequence[str]]]
    seconds: Mapping[str, float]

    def of(self, change: Change) -> list[str]:
        """The tests of the change's lines in the order in which they are tried: those named for its file, then quick ones."""
        lines = self.lines.get(change.file, {})
        tests = {test for line in change.lines for test in lines.get(line, ())}
        name = Path(change.file).stem
        return sorted(tests, key=lambda test: (name not in test.partition("::")[0], self.seconds[test], test))


def read(folder: Path, root: Path) -> Reach:
    """What the plugin `reaching` left in the folder. Tests that were not green are left out."""
    seconds: dict[str, float] = defaultdict(float)
    red = set()
    for outcomes in folder.glob("*.jsonl"):
        for line in outcomes.read_text().splitlines():
            report = json.loads(line)
            if report["outcome"] == STOPPED:
                seconds[report["test"]] += _LONG_S
                continue
            seconds[report["test"]] += report["seconds"]
            if report["outcome"] == "failed" or (report["phase"] == "call" and report["outcome"] != "passed"):
                red.add(report["test"])
    lines: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for file in folder.glob("*.coverage"):
        data = coverage.CoverageData(basename=str(file))
        data.read()
        for measured in data.measured_files():
            own = lines[str(Path(measured).resolve().relative_to(root))]
            for number, tests in data.contexts_by_lineno(measured).items():
                own[number] |= {test for test in tests if test in seconds and test not in red}
    return Reach({file: {line: sorted(tests) for line, tests in each.items()} for file, each in lines.items()}, dict(seconds))
