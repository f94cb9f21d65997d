"""The counts of a campaign, and the errors that it found."""

import json
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Final, Literal

from tests.campaign.disturbance.faults import Fault

Finding = Literal["wrong answers", "lost records", "manual interventions", "misleading messages"]
FINDINGS: Final[tuple[Finding, ...]] = ("wrong answers", "lost records", "manual interventions", "misleading messages")


@dataclass
class Tally:
    """Counts of one run, by any thread; everything that is noted goes to a file of JSON lines, too, which is the evidence."""

    evidence: Path
    faults: Counter[Fault] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    findings: Counter[Finding] = field(default_factory=Counter)
    left_out: list[str] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)
    _began: float = field(default_factory=time.monotonic)

    def did(self, fault: Fault) -> None:
        """Count a fault that was really done."""
        with self._lock:
            self.faults[fault] += 1
        self.note("fault", fault=str(fault))

    def count(self, what: str, number: int = 1) -> None:
        """Count events, rows, answers."""
        with self._lock:
            self.counts[what] += number

    def found(self, finding: Finding, number: int = 1, **facts: Any) -> None:
        """Count what must not be, and keep the facts."""
        with self._lock:
            self.findings[finding] += number
        self.note("FOUND", finding=finding, **facts)

    def note(self, what: str, **facts: Any) -> None:
        """Append a line to the evidence."""
        line = json.dumps({"s": round(time.monotonic() - self._began, 1), "what": what, **facts}, default=str)
        with self._lock, self.evidence.open("a", encoding="utf-8") as file:
            file.write(line + "\n")

    @property
    def held(self) -> bool:
        """Whether nothing was found, in a run that had something to find."""
        return not sum(self.findings.values()) and self.counts["comparisons"] > 0

    def document(self, *, seed: int, minutes: float) -> dict[str, Any]:
        """The result."""
        return {
            "seed": seed,
            "minutes": minutes,
            "held": self.held,
            **{name: self.findings[name] for name in FINDINGS},
            "faults": {str(fault): number for fault, number in sorted(self.faults.items())},
            "faults_in_all": self.faults.total(),
            **dict(sorted(self.counts.items())),
            "left_out": self.left_out,
        }


def lines(document: Mapping[str, Any]) -> list[str]:
    """The result for a person."""
    faults = document["faults"]
    done = [f"  {name}: {number}" for name, number in faults.items()]
    rest = [f"{name}: {value}" for name, value in document.items() if name not in ("faults", "left_out")]
    return [*rest, "faults:", *done, *(f"left out: {reason}" for reason in document["left_out"])]
