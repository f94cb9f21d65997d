"""`tandem feed`: the lines of a file, or of standard input, as records of a source's topic."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from tandem.cli.command.call import Call, Output
from tandem.cli.command.published_definitions import definitions
from tandem.cli.command.published_definitions import source as source_of
from tandem.cli.command.published_definitions import topic as topic_of
from tandem.cli.command.signals import stopping
from tandem.cli.command.uncounted import WITHIN_S, Wait, Within, counted_output, wait_until_counted
from tandem.cli.records.bundles import BundledValue, Bundles, UnclosedQuote
from tandem.cli.records.lines import lines
from tandem.cli.records.record_keys import PIECE
from tandem.cli.records.tail import followed
from tandem.infra import kafka
from tandem.infra.kafka import broker
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import Position
from tandem.views.errors import TandemError
from tandem.views.project.partition_key import record_keys
from tandem.views.source.source import Source

_SHOWN_EVERY = 1000


def run(
    call: Call,
    *,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="The file to send. Unpacked if its name ends in .gz; - is standard input.")
    ],
    source: Annotated[str, typer.Option(help="The source whose topic receives the records.")],
    topic: Annotated[str | None, typer.Option(help="The topic, if the source has several.")] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Continue with appended lines, across file rotations, until interrupted.")
    ] = False,
    wait: Wait = False,
    within: Within = WITHIN_S,
) -> Output:
    """Send each line of FILE as one record.

    * A line ends with a line feed, or with a carriage return and a line feed. The line end is not sent.
    * Blank lines are sent too, except where a record holds many lines. NUL bytes before a line are a hole and left out.
    * If the source's decoder is CSV, each row is sent as one record: a quoted text may go over several lines. FILE's header is
      sent with every row. A quoted text without an end ends the command after the rows before it.
    * If a value of the source holds many events of a line each, a record has many lines, up to half a megabyte, unless the
      source has a key.
    * If the source has a key, each line is decoded to compute its key, in batches of up to a thousand lines; a line that
      cannot be decoded is sent without a key. Otherwise the source's decoder reads the lines later.

    The command succeeds only if all replicas acknowledged every record. It needs the broker, not the speed layer. With --wait
    it returns once answers count these records, whatever else is sent; `uncounted` is the number that they do not count yet.
    """
    if follow and (str(file) == "-" or file.suffix == ".gz"):
        raise typer.BadParameter("--follow cannot read standard input or a .gz file")
    settings = call.settings()
    to = source_of(definitions(call, Tables.of(settings)), source)
    to_topic = topic_of(to, topic)
    if str(file) != "-":
        _refuse_no_file(file, follow=follow)
    address = broker.address(settings)
    connection = kafka.connect(address)
    found = kafka.topic(connection, to_topic)
    with (
        stopping() if follow else nullcontext(Event()) as stop,
        kafka.Sender(address) as sender,
        _shown(call, file, follow=follow) as show,
    ):
        waiting = _Waiting(to, found.name, file, sender, show)

        def restart(why: str) -> None:
            waiting.restart()
            call.say(why)

        try:
            for line in followed(file, stop, idle=waiting.flush, restarted=restart) if follow else lines(file):
                waiting.add(line)
            waiting.flush()
            sender.finish()
            if not follow:
                waiting.bundles.end()
        except UnclosedQuote as error:
            waiting.flush()
            sender.finish()
            raise TandemError(f"{error}; {sender.acknowledged} records before it were sent", code="file-unusable") from None
    positions = Position.of({(found.id, partition): offset for (_, partition), offset in sender.positions.items()})
    document: dict[str, Any] = {"source": source, "sent": sender.acknowledged, "positions": positions.to_json()}
    shown = f"sent {sender.acknowledged} records to {source}; all acknowledged"
    if not wait:
        return Output(document, shown)
    late = wait_until_counted(settings, {source: positions}, seconds=within, of=sender.acknowledged)
    return counted_output(call, document, shown, late)


@dataclass
class _Waiting:
    """Lines that are not sent yet, because they share a record, or because their keys are computed together."""

    source: Source
    topic: str
    file: Path
    sender: kafka.Sender
    show: Callable[[int, int], None]
    bundles: Bundles = field(init=False)
    values: list[BundledValue] = field(default_factory=list)
    sent: int = 0

    def __post_init__(self) -> None:
        self.bundles = Bundles.of(self.source, str(self.file))

    def add(self, line: bytes) -> None:
        """Add the line, and send all waiting lines if there are enough."""
        self.values += self.bundles.add(line)
        if self.values and (self.source.key is None or len(self.values) >= PIECE):
            self._send()

    def flush(self) -> None:
        """Send all waiting lines, and check for acknowledgements and errors."""
        self.values += self.bundles.rest()
        self._send()

    def restart(self) -> None:
        """Send all lines of a file that ended, also an open row; lines are counted from 1 again."""
        self.values += self.bundles.cut_row()
        self.flush()
        self.bundles.seen = 0

    def _send(self) -> None:
        for key, one in zip(record_keys(self.source, [one.value for one in self.values]), self.values, strict=True):
            self.sent += 1
            try:
                self.sender.send(self.topic, one.value, key)
            except kafka.NotSent as error:
                raise kafka.NotSent(f"line {one.line} of {self.file}: {error}") from None
            self.show(self.sent, one.size)
        self.values.clear()
        self.sender.poll()


def _refuse_no_file(file: Path, *, follow: bool) -> None:
    """Pipes and devices are read as files are; to follow a file waits for it."""
    if file.is_dir():
        raise TandemError(f"cannot read {file}: it is a folder; name a file, or - for standard input", code="file-unusable")
    if not follow and not file.exists():
        raise TandemError(f"cannot read {file}: the file does not exist", code="file-unusable")


@contextmanager
def _shown(call: Call, file: Path, *, follow: bool) -> Iterator[Any]:
    """A progress bar on a terminal; it shows how much is left only for a plain file."""
    known = str(file) != "-" and not follow and file.suffix != ".gz" and file.is_file()
    columns = [BarColumn(), TimeRemainingColumn()] if known else [TimeElapsedColumn()]
    console = call.console()
    with Progress(
        TextColumn("{task.fields[sent]:>12,} records"), *columns, console=console, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("feed", total=file.stat().st_size if known else None, sent=0)
        pending = 0

        def show(number: int, size: int) -> None:
            nonlocal pending
            pending += size
            if number % _SHOWN_EVERY == 0:
                bar.update(task, advance=pending, sent=number)
                pending = 0

        yield show
        bar.update(task, advance=pending)
