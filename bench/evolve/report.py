"""The results as a document and as text."""

from typing import Any

from rich.table import Table

from tandem.bench.evolve.applying import Served
from tandem.bench.evolve.recomputing import Recomputes


def document(recomputes: Recomputes, served: Served) -> dict[str, Any]:
    """All figures; the goals are a ratio of at most 0.10 of the recomputes, and of at most 2 of the 99th percentiles."""
    return {
        "recompute": vars(recomputes) | {"ratio": round(recomputes.ratio, 4)},
        "apply": vars(served) | {"ratio": round(served.ratio, 2), "wrong": served.wrong[:10], "wrong_answers": len(served.wrong)},
    }


def tables(recomputes: Recomputes, served: Served) -> list[Table | str]:
    """The same for a person."""
    shown = Table("recompute", "events", "seconds", title=f"incremental takes {recomputes.ratio:.3f} of full")
    shown.add_row("full", f"{recomputes.events:,}", f"{recomputes.full_s:.1f}")
    shown.add_row("incremental", f"{recomputes.new:,}", f"{recomputes.incremental_s:.1f}")
    phases = Table("queries", "asked", "p99, ms", title=f"while a release is built p99 is {served.ratio:.2f} times that before")
    for phase, asked in served.queries.items():
        phases.add_row(phase, f"{asked:,}", f"{served.p99_s[phase] * 1000:.1f}")
    steps = f"apply {served.apply_s:.1f} s, promote {served.promote_s:.2f} s, rollback {served.rollback_s:.2f} s"
    same = "rows of both recomputes are the same" if recomputes.equal else "ROWS OF BOTH RECOMPUTES DIFFER"
    return [shown, same, phases, steps, f"{len(served.wrong)} answers were wrong", *served.wrong[:3]]
