"""`tandem generate`: sends the samples of a project's own generator to its source's topic.

A project's `generator.py` defines

* `SOURCE`: the source whose records it generates,
* `generate(seed, n, base=...)`: samples of key, value and facts,
* `Truth`: sums up the facts to the expected answers of every view.

The command sends the samples and writes the expected answers to a file: `{view: rows as query prints them, exact measures only}`.
If the source has a key, it replaces the keys of the samples.

Windows that follow the order of the log differ by partition, so a `Truth` may ask for the topic's id and number of partitions.
The partition of a record is known before it is sent: `kafka.Sender` chooses it by the key, and keeps the order.
"""

import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Annotated, Any, Protocol

import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.published_definitions import topic as topic_of
from tandem.cli.command.signals import stopping
from tandem.cli.command.uncounted import WITHIN_S, Wait, Within, counted_output, wait_until_counted
from tandem.cli.records import expected_answers
from tandem.cli.records.record_keys import Sample, keyed
from tandem.infra import folders, kafka
from tandem.infra.kafka import broker
from tandem.ledger.log.positions import Position
from tandem.views.errors import TandemError, listed, said_by
from tandem.views.instant import utc_text
from tandem.views.project import python_code

FILE = "generator.py"

_TICK_S = 0.01


def run(
    call: Call,
    *,
    events: Annotated[int | None, typer.Option(min=0, help="Number of samples. Without it, until stopped.")] = None,
    rate: Annotated[
        float | None, typer.Option(min=0.001, help="Samples per second. Without it, as fast as the broker accepts them.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the samples: equal seed and base give equal samples.")] = 1,
    base: Annotated[str, typer.Option(metavar="TIME", help="Event time of the first sample. Without it, now.")] = "",
    skip: Annotated[
        int,
        typer.Option(
            min=0, help="Number of samples that an earlier run has sent: counted in the expected answers, not sent again."
        ),
    ] = 0,
    duplicates: Annotated[
        float, typer.Option(min=0, max=1, help="Share of samples that repeat an earlier sample, 0 to 1.")
    ] = 0.0,
    topic: Annotated[str | None, typer.Option(help="The topic, if the source has several.")] = None,
    truth: Annotated[Path | None, typer.Option(metavar="FILE", help="File for the expected answers of every view.")] = None,
    wait: Wait = False,
    within: Within = WITHIN_S,
) -> Output:
    """Generate sample events, send them to the source's topic, and record the expected answers.

    The broker acknowledges each event. The file of expected answers counts the events that were sent; it is written at the
    end, also after SIGTERM or Ctrl-C. With --wait the command returns once answers count the records that it has sent;
    `uncounted` is the number that they do not count yet.
    """
    generator = load(call.project)
    sources = call.definitions().sources
    if generator.source not in sources:
        known = listed(generator.source, sources)
        raise NoGenerator(f"{call.project / FILE}: unknown source {generator.source!r} in SOURCE; sources: {known}")
    source = sources[generator.source]
    to, start = topic_of(source, topic), _time(base)
    settings = call.settings()
    address = broker.address(settings)
    connection = kafka.connect(address)
    found = kafka.topic(connection, to)
    counted = empty_truth(generator, found.id, found.partitions) if truth is not None else None
    with stopping() as stop, kafka.Sender(address) as sender:
        driven = drive(
            keyed(source, samples(generator, seed, events, start, duplicates)),
            counted,
            lambda value, key: sender.send(to, value, key),
            skip=skip,
            rate=rate,
            stop=stop,
        )
    document = {
        "source": generator.source,
        "seed": seed,
        "base": utc_text(start),
        "skipped": skip,
        "acknowledged": sender.acknowledged,
        "malformed": driven.malformed,
    }
    if truth is not None and counted is not None:
        expected_answers.write(truth, document | {"views": counted.manifest()})
    said = f"{sender.acknowledged} events acknowledged on topic {to}, {driven.malformed} of them malformed"
    if not wait:
        return Output(document, said)
    reached = Position.of({(found.id, partition): offset for (_, partition), offset in sender.positions.items()})
    late = wait_until_counted(settings, {source.name: reached}, seconds=within, of=sender.acknowledged)
    return counted_output(call, document, said, late)


class NoGenerator(TandemError, code="generator-missing"):
    """The project has no usable generator."""


class Truth(Protocol):
    """The expected answers, computed independently from a generator's facts."""

    def add(self, facts: Any) -> None:
        """Count the facts of one well-formed record."""

    def manifest(self) -> dict[str, list[dict[str, Any]]]:
        """The rows by view name, exact measures only."""


@dataclass(frozen=True)
class Generator:
    """A project's generator.py: the source's name, its samples, and a `Truth` without facts.

    `Truth` may have the parameters `topic_id` and `partitions`, the topic's id and its number of partitions.
    """

    source: str
    generate: Callable[..., Iterator[Sample]]
    truth: Callable[..., Truth]


@dataclass(frozen=True)
class Driven:
    """The result of a run: the number of sent samples, and how many of them were malformed."""

    sent: int
    malformed: int


def load(project: Path) -> Generator:
    """The generator of the project in this folder. Raises NoGenerator, which names what is missing."""
    file = project / FILE
    if not file.is_file():
        raise NoGenerator(f"{project} has no {FILE}; a generator defines SOURCE, generate and Truth, as in examples/web/{FILE}")
    _provide_examples()
    module = ModuleType(f"generator_of_{project.name}")
    module.__file__ = str(file)
    try:
        # Named tuples and dataclasses look up their module while it is executed.
        sys.modules[module.__name__] = module
        python_code.run(file.read_bytes(), str(file), module)
    except Exception as error:
        raise NoGenerator(f"{file} cannot be loaded: {said_by(error)}") from error
    missing = [name for name in ("SOURCE", "generate", "Truth") if not hasattr(module, name)]
    if missing:
        raise NoGenerator(f"{file} does not define {', '.join(missing)}; a generator defines SOURCE, generate and Truth")
    return Generator(module.SOURCE, module.generate, module.Truth)


def _provide_examples() -> None:
    """Let generators import `examples`, which the examples share, also if an installed copy has that folder in `tandem`."""
    if "examples" not in sys.modules:
        package = ModuleType("examples")
        package.__path__ = [str(folders.EXAMPLES)]
        sys.modules[package.__name__] = package


def empty_truth(generator: Generator, topic_id: str, partitions: int) -> Truth:
    """A topic's `Truth` without facts. Raises NoGenerator if it has an unknown parameter."""
    known = {"topic_id": topic_id, "partitions": partitions}
    wanted = [*inspect.signature(generator.truth).parameters]
    if unknown := [name for name in wanted if name not in known]:
        raise NoGenerator(f"unknown parameter {unknown[0]!r} of Truth in {FILE}; parameters: {', '.join(known)}")
    return generator.truth(**{name: known[name] for name in wanted})


def samples(generator: Generator, seed: int, events: int | None, base: datetime, duplicates: float) -> Iterator[Sample]:
    """The first samples of a seed; without a number, an endless sequence."""
    return generator.generate(seed, sys.maxsize if events is None else events, base=base, duplicates=duplicates)


def drive(
    given: Iterable[Sample],
    truth: Truth | None,
    send: Callable[[bytes, bytes | None], None],
    *,
    skip: int = 0,
    rate: float | None = None,
    stop: Event,
    clock: Callable[[], float] = time.monotonic,
) -> Driven:
    """Send the samples, `rate` per second or as fast as the broker accepts them, until they end or `stop` is set.

    An earlier run has sent the first `skip`: they count in the expected answers and are not sent again.
    """
    remaining = iter(given)
    for _, _, facts in islice(remaining, skip):
        if truth is not None and facts is not None:
            truth.add(facts)
    sent = malformed = 0
    start = clock()
    for key, value, facts in remaining:
        while rate is not None and sent >= (clock() - start) * rate and not stop.wait(_TICK_S):
            pass
        if stop.is_set():
            break
        send(value, key)
        sent += 1
        if facts is None:
            malformed += 1
        elif truth is not None:
            truth.add(facts)
    return Driven(sent, malformed)


def _time(text: str) -> datetime:
    """The time of a text with a zone; now without a text. Raises TandemError."""
    if not text:
        return datetime.now(UTC).replace(microsecond=0)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise TandemError(
            f"invalid --base {text!r}; expected a time with a zone, such as 2026-11-01T08:00:00Z", code="usage-invalid"
        )
    return time
