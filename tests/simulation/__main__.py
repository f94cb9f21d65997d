"""`python -m tests.simulation`: schedules for as long as one likes, on every core, and which steps they interleave.

Prints counts, wrong seeds each with the command that repeats it, and a table of pairs; exits with 1 if a schedule was wrong.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import TextIO

from tests.simulation.pairs import Coverage
from tests.simulation.running import Ran, many, repeated_by

_TELL_S = 30.0


def main(arguments: list[str]) -> int:
    """Run what the arguments ask for; the exit code."""
    parser = argparse.ArgumentParser("python -m tests.simulation", description=__doc__)
    parser.add_argument("--seed", type=int, default=1_000_000, help="the first seed; the others follow it")
    parser.add_argument("--schedules", type=int, help="how many; without, as many as --minutes allow")
    parser.add_argument("--minutes", type=float, help="begin no schedule after so many minutes")
    parser.add_argument("--processes", type=int, help="one for each core by default")
    parser.add_argument("--out", type=Path, help="a JSON file to keep counts and wrong seeds in, also while it runs")
    parser.add_argument("--pairs", action="store_true", help="print which pairs of steps were interleaved, and which never")
    chosen = parser.parse_args(arguments)
    if chosen.schedules is None and chosen.minutes is None:
        parser.error("expected --schedules or --minutes")
    began = told = time.monotonic()
    whole = Ran()
    seconds = None if chosen.minutes is None else chosen.minutes * 60
    for whole in many(chosen.seed, schedules=chosen.schedules, seconds=seconds, processes=chosen.processes):
        if chosen.out is not None:
            chosen.out.write_text(json.dumps(_document(whole, chosen.seed, time.monotonic() - began), indent=1) + "\n")
        if time.monotonic() - told > _TELL_S:
            told = time.monotonic()
            _say(f"{whole.schedules} schedules, {len(whole.wrong)} wrong", sys.stderr)
    _say(json.dumps(_document(whole, chosen.seed, time.monotonic() - began), indent=1))
    if chosen.pairs:
        coverage = Coverage(whole.pairs)
        _say(f"Percent of pairs of steps that were interleaved:\n\n{coverage.table()}\n\nNever interleaved:")
        for one, other in coverage.never:
            _say(f"  {one} | {other}")
    for seed, law in sorted(whole.wrong.items()):
        _say(f"seed {seed}: {law}\n  {repeated_by(seed)}")
    return 1 if whole.wrong else 0


def _document(whole: Ran, first: int, seconds: float) -> dict[str, object]:
    coverage = Coverage(whole.pairs)
    return {
        "first_seed": first,
        "schedules": whole.schedules,
        "seconds": round(seconds),
        "io_calls": whole.calls,
        "log_loses_records": whole.lossy,
        "with_gaps": whole.gaps,
        "topic_created_again": whole.anew,
        "wrong": {str(seed): law for seed, law in sorted(whole.wrong.items())},
        "processes_ended_by": dict(whole.ended.most_common()),
        "steps_stood_before": len(coverage.stood),
        "steps_done_meanwhile": len(coverage.done),
        "pairs_interleaved": len(whole.pairs),
        "pairs_never": len(coverage.never),
    }


def _say(line: str, where: TextIO | None = None) -> None:
    print(line, file=where, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
