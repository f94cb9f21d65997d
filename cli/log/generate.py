"""`tandem generate`: sends the samples of a project's own generator to its source's topic.

A project's `generator.py` defines

* `SOURCE`: the source whose records it generates, or `SOURCES`: the names of several,
* `generate(seed, n, base=...)`: samples of key, value and facts; of several sources also the source's name,
* `Truth`: sums up the facts to the expected answers of every view,
* `CONDITIONS`, if it likes: for a sink or alert by name, whether a row of `Truth.manifest` meets its condition.

The command sends the samples and writes the expected answers to a file: `{view: rows as query prints them, exact measures only}`.
If the source has a key, it replaces the keys of the samples.

Windows that follow the order of the log differ by partition, so the `Truth` of one source may ask for the topic's id and for its
number of partitions. The partition of a record is known before it is sent: `kafka.Sender` chooses it by the key, and keeps the
order.
"""

import inspect
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Annotated, Any, Protocol

import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.options import time_with_zone
from tandem.cli.command.published_definitions import topic as topic_of
from tandem.cli.command.signals import stopping
from tandem.cli.command.uncounted import WITHIN_S, Wait, Within, counted_output, wait_until_counted
from tandem.cli.records import expected_answers
from tandem.cli.records.record_keys import Sample, SourceSample, keyed
from tandem.infra import clock, folders, kafka
from tandem.infra.kafka import broker
from tandem.infra.kafka.source_topics import topic_to_send_to
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
    definitions = call.definitions().sources
    for name in generator.sources:
        if name not in definitions:
            known = listed(name, definitions)
            raise NoGenerator(f"{call.project / FILE}: unknown source {name!r} in SOURCE; sources: {known}")
    if topic is not None and len(generator.sources) > 1:
        raise TandemError(f"--topic cannot be combined with a generator of several sources: {', '.join(generator.sources)}")
    sources = {name: definitions[name] for name in generator.sources}
    names, start = {name: topic_of(source, topic) for name, source in sources.items()}, _time(base)
    settings = call.settings()
    address = broker.address(settings)
    connection = kafka.connect(address)
    topics = {name: topic_to_send_to(connection, sources[name], to) for name, to in names.items()}
    counted = (
        empty_truth(generator, [(topic_.id, topic_.partitions) for topic_ in topics.values()]) if truth is not None else None
    )
    with stopping() as stop, kafka.Sender(address) as sender:
        driven = drive(
            keyed(sources, samples(generator, seed, events, start, duplicates)),
            counted,
            lambda value, key, name: sender.send(names[name], value, key),
            skip=skip,
            rate=rate,
            stop=stop,
        )
    document = {
        "sources": list(sources),
        "seed": seed,
        "base": utc_text(start),
        "skipped": skip,
        "acknowledged": sender.acknowledged,
        "malformed": driven.malformed,
    }
    if truth is not None and counted is not None:
        expected_answers.write(truth, document | {"views": counted.manifest()})
    to = ("topic " if len(names) == 1 else "topics ") + ", ".join(names.values())
    said = f"{sender.acknowledged} events acknowledged on {to}, {driven.malformed} of them malformed"
    if not wait:
        return Output(document, said)
    reached = {name: _end(sender, topics[name]) for name in topics}
    late = wait_until_counted(settings, reached, seconds=within, of=sender.acknowledged)
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
    """A project's generator.py: the names of its sources, its samples, and a `Truth` without facts.

    The `Truth` of one source may have the parameters `topic_id` and `partitions`, the topic's id and its number of partitions.
    `conditions` are those of sinks and alerts, by name, over expected rows.
    """

    sources: tuple[str, ...]
    generate: Callable[..., Iterator[Any]]
    truth: Callable[..., Truth]
    conditions: Mapping[str, Callable[[Mapping[str, Any]], bool]] = field(default_factory=dict)


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
    several = "SOURCES" if hasattr(module, "SOURCES") else "SOURCE"
    missing = [name for name in (several, "generate", "Truth") if not hasattr(module, name)]
    if missing:
        raise NoGenerator(f"{file} does not define {', '.join(missing)}; a generator defines SOURCE, generate and Truth")
    sources = tuple(module.SOURCES) if several == "SOURCES" else (module.SOURCE,)
    conditions: Any = getattr(module, "CONDITIONS", {})
    if not isinstance(conditions, Mapping) or not all(map(callable, conditions.values())):
        raise NoGenerator(f"CONDITIONS of {file} is not a dict of functions by the names of sinks and alerts")
    return Generator(sources, module.generate, module.Truth, conditions)


def _provide_examples() -> None:
    """Let generators import `examples`, which the examples share, also if an installed copy has that folder in `tandem`."""
    if "examples" not in sys.modules:
        package = ModuleType("examples")
        package.__path__ = [str(folders.EXAMPLES)]
        sys.modules[package.__name__] = package


def empty_truth(generator: Generator, topics: Sequence[tuple[str, int]]) -> Truth:
    """A `Truth` without facts, for topics of these ids and numbers of partitions, one for each source.

    Raises NoGenerator if it has an unknown parameter, or asks for the topic of several sources.
    """
    parameters = ("topic_id", "partitions")
    wanted = [*inspect.signature(generator.truth).parameters]
    if unknown := [name for name in wanted if name not in parameters]:
        raise NoGenerator(f"unknown parameter {unknown[0]!r} of Truth in {FILE}; parameters: {', '.join(parameters)}")
    if wanted and len(topics) > 1:
        raise NoGenerator(f"parameter {wanted[0]!r} of Truth in {FILE} needs one source; sources: {', '.join(generator.sources)}")
    values = dict(zip(parameters, topics[0], strict=True)) if wanted else {}
    return generator.truth(**{name: values[name] for name in wanted})


def samples(generator: Generator, seed: int, events: int | None, base: datetime, duplicates: float) -> Iterator[SourceSample]:
    """The first samples of a seed; without a number, an endless sequence."""
    generated = generator.generate(seed, sys.maxsize if events is None else events, base=base, duplicates=duplicates)
    if len(generator.sources) > 1:
        return generated
    (source,) = generator.sources
    return ((*sample, source) for sample in generated)


def drive(
    given: Iterable[Sample | SourceSample],
    truth: Truth | None,
    send: Callable[..., object],
    *,
    skip: int = 0,
    rate: float | None = None,
    stop: Event,
    clock: Callable[[], float] = time.monotonic,
) -> Driven:
    """Send the samples, `rate` per second or as fast as the broker accepts them, until they end or `stop` is set.

    `send` takes value, key, and the source's name if samples have it. An earlier run has sent the first `skip`: they count in the
    expected answers and are not sent again.
    """
    remaining = iter(given)
    for _, _, facts, *_ in islice(remaining, skip):
        if truth is not None and facts is not None:
            truth.add(facts)
    sent = malformed = 0
    start = clock()
    for key, value, facts, *source in remaining:
        while rate is not None and sent >= (clock() - start) * rate and not stop.wait(_TICK_S):
            pass
        if stop.is_set():
            break
        send(value, key, *source)
        sent += 1
        if facts is None:
            malformed += 1
        elif truth is not None:
            truth.add(facts)
    return Driven(sent, malformed)


def _end(sender: kafka.Sender, topic: kafka.Topic) -> Position:
    """The end of a topic after what was sent to it."""
    places = sender.positions.items()
    return Position.of({(topic.id, partition): offset for (name, partition), offset in places if name == topic.name})


def _time(text: str) -> datetime:
    """The time of a text with a zone; now without a text. Raises TandemError."""
    if not text:
        return clock.now().replace(microsecond=0)
    return time_with_zone("--base", text)
