"""The results of `bench scale` as a document and as text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from rich.table import Table

from tandem.bench.scale import executors, micro_batch_keys
from tandem.bench.scale.executors import ExecutorsRun, Gain, gains
from tandem.bench.scale.measuring import VIEWS, Keys, Triggers
from tandem.bench.scale.micro_batch_keys import HeldKeys, bytes_per_key

Found = HeldKeys | ExecutorsRun | Triggers | Keys


def wrong(found: Sequence[Found]) -> int:
    """How many answers were wrong."""
    return sum(one.differ for one in found if isinstance(one, HeldKeys | ExecutorsRun))


def document(found: Sequence[Found], machine: Mapping[str, object], *, complete: bool) -> dict[str, Any]:
    """All runs, and the ratios that are to be read."""
    runs = [one for one in found if isinstance(one, ExecutorsRun)]
    held = [one for one in found if isinstance(one, HeldKeys)]
    triggers = [one for one in found if isinstance(one, Triggers)]
    return {
        "machine": dict(machine),
        "complete": complete,
        "wrong": wrong(found),
        "micro_batch_keys": [vars(one) for one in held],
        "bytes_per_key": bytes_per_key(held),
        "executors": [asdict(run) for run in runs],
        "gains": [vars(gain) | {"limit": gain.limit} for gain in gains(runs)],
        "triggers": [vars(run) for run in triggers],
        "ratio": _ratio(triggers),
        "keys": [vars(one) | {"peak_gib": round(one.peak / 2**30, 2)} for one in found if isinstance(one, Keys)],
    }


def _ratio(runs: Sequence[Triggers]) -> float | None:
    """How many times as long a trigger with many views took as one with few; None if one of both was not measured."""
    seconds = [[run.seconds for run in runs if run.views == views] for views in VIEWS]
    return round(median(seconds[1]) / median(seconds[0]), 2) if all(seconds) else None


def shown(found: Sequence[Found], machine: Mapping[str, object], *, complete: bool) -> Iterator[Table | str]:
    """The same for a person."""
    yield "machine: " + ", ".join(f"{name} {value}" for name, value in machine.items())
    if not complete:
        yield "INCOMPLETE: the time was over before everything was measured"
    held = [one for one in found if isinstance(one, HeldKeys)]
    yield from map(micro_batch_keys.line, held)
    if (each := bytes_per_key(held)) is not None:
        yield f"the driver's processes grow by {each:,.0f} bytes with each key of a micro-batch"
    runs = [one for one in found if isinstance(one, ExecutorsRun)]
    yield from map(executors.line, runs)
    yield from map(_sentence, gains(runs))
    yield from _tables(found)


def _sentence(gain: Gain) -> str:
    return (
        f"{gain.what}, {gain.partitions} partitions, executors of {gain.share:g} core: two are {gain.times:.2f} times as fast as "
        f"one (aim 1.8); limit: {gain.limit}"
    )


def _tables(found: Sequence[Found]) -> Iterator[Table]:
    triggers = [one for one in found if isinstance(one, Triggers)]
    if triggers:
        table = Table("views", "round", "ms a trigger", "least", "most", title=f"ratio {_ratio(triggers)}")
        for run in triggers:
            table.add_row(str(run.views), str(run.round + 1), *(f"{s * 1000:.0f}" for s in (run.seconds, run.least, run.most)))
        yield table
    memory = Table("keys", "events", "seconds", "peak, GiB")
    for one in (one for one in found if isinstance(one, Keys)):
        memory.add_row(f"{one.keys:,}", f"{one.events:,}", f"{one.seconds:.0f}", f"{one.peak / 2**30:.2f}")
    if memory.row_count:
        yield memory
