"""The results of a soak as a document and as text."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from rich.table import Table

from tandem.bench.soak.load import ANSWERS, MOST, Flatness, Soaked, flatness

_MIB: Final = 2**20


def document(found: Soaked) -> dict[str, Any]:
    """Figures in bytes and numbers; slopes a minute."""
    flat = flatness(found.samples)
    return {
        "seconds": found.samples[-1].seconds,
        "figures": [{**asdict(one), "ratio": one.ratio, "flat": one.flat} for one in flat],
        "answers": {name: {str(status): count for status, count in statuses.items()} for name, statuses in found.answers.items()},
        "commits": found.commits,
        "broken": found.broken,
        "samples": [asdict(one) for one in found.samples],
        "flat": all(one.flat for one in flat),
        "errors": errors(found),
    }


def errors(found: Soaked) -> int:
    """How many answers were none."""
    every = [one for statuses in found.answers.values() for one in statuses.items()]
    return sum(count for status, count in every if status not in ANSWERS)


def tables(found: Soaked) -> Iterator[Table]:
    """The same for a person."""
    figures = Table("the server's", "second quarter", "last quarter", "times", "a minute", f"at most {MOST:g} times")
    for one in flatness(found.samples):
        numbers = (_said(one, number) for number in (one.second, one.last))
        figures.add_row(one.what, *numbers, f"{one.ratio:.2f}", _said(one, one.slope), "flat" if one.flat else "it grows")
    yield figures
    answers = Table("asked for", "answers", "by status")
    for name, statuses in found.answers.items():
        by_status = ", ".join(f"{status}: {count:,}" for status, count in statuses.items())
        answers.add_row(name, f"{sum(statuses.values()):,}", by_status)
    yield answers
    broke = "".join(f"; {what} {count:,} times" for what, count in found.broken.items())
    yield Table(f"{found.commits:,} commits; {errors(found):,} errors{broke}")


def _said(one: Flatness, number: float) -> str:
    return f"{number / _MIB:,.1f} MiB" if one.what == "bytes" else f"{number:,.1f}"
