"""The results of `bench scale` as a document and as text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from tandem.bench.commands import cores
from tandem.bench.scale import executors, micro_batch_keys
from tandem.bench.scale.gains import gains, lines_of
from tandem.bench.scale.micro_batch_keys import HeldKeys, bytes_per_key
from tandem.bench.scale.runs import ExecutorsRun

Found = HeldKeys | ExecutorsRun


def wrong(found: Sequence[Found]) -> int:
    """How many answers were wrong."""
    return sum(one.differ for one in found)


def document(found: Sequence[Found], machine: Mapping[str, object], *, complete: bool) -> dict[str, Any]:
    """All runs, and the ratios that are to be read."""
    runs, keys = _parts(found)
    return {
        "machine": dict(machine),
        "complete": complete,
        "wrong": wrong(found),
        "micro_batch_keys": [vars(one) for one in keys],
        "bytes_per_key": bytes_per_key(keys),
        "executors": [asdict(run) for run in runs],
        "gains": [asdict(gain) | {"bend": gain.bend, "limit": gain.limit} for gain in gains(runs, cores())],
    }


def shown(found: Sequence[Found], machine: Mapping[str, object], *, complete: bool) -> Iterator[str]:
    """The same for a person."""
    yield "machine: " + ", ".join(f"{name} {value}" for name, value in machine.items())
    if not complete:
        yield "INCOMPLETE: the time was over before everything was measured"
    runs, keys = _parts(found)
    yield from map(micro_batch_keys.line, keys)
    if (each := bytes_per_key(keys)) is not None:
        yield f"the driver's processes grow by {each:,.0f} bytes with each key of a micro-batch"
    yield from map(executors.line, runs)
    for gain in gains(runs, cores()):
        yield from lines_of(gain)


def _parts(found: Sequence[Found]) -> tuple[list[ExecutorsRun], list[HeldKeys]]:
    return [one for one in found if isinstance(one, ExecutorsRun)], [one for one in found if isinstance(one, HeldKeys)]
