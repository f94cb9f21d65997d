"""`tandem feed`: the lines of a file, or of standard input, as records of a source's topic."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Annotated, Any

import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.published_definitions import definitions
from tandem.cli.command.published_definitions import source as source_of
from tandem.cli.command.published_definitions import topic as topic_of
from tandem.cli.command.signals import DeferredInterrupt, Interrupted, defer_interrupt, stopping
from tandem.cli.command.uncounted import WITHIN_S, Wait, Within, counted_output, wait_until_counted
from tandem.cli.log.file_progress import bytes_to_read, file_progress
from tandem.cli.log.folder_feed import FolderFeed
from tandem.cli.log.inbox import BucketInbox, FolderInbox, Inbox, bucket_address, bucket_options
from tandem.cli.log.mqtt_address import MqttAddress, mqtt_address
from tandem.cli.log.sending import RecordSending, say_rejects
from tandem.cli.log.tcp_feed import TcpFeed, address_of, open_listener, summary
from tandem.cli.records.bundles import Bundles, UnclosedQuote
from tandem.cli.records.file_values import FORCED, FileValues, file_values
from tandem.cli.records.folder_files import folder_files, partition_folders
from tandem.cli.records.parquet.parquet_values import SUFFIXES
from tandem.cli.records.reject_groups import RejectGroups, by_reason
from tandem.cli.records.tail import followed
from tandem.infra import kafka
from tandem.infra.kafka import broker
from tandem.infra.kafka.source_topics import topic_to_send_to
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.fed_files import FedFiles
from tandem.ledger.log.positions import Position
from tandem.ledger.log.registry_schemas import schemas_in
from tandem.views.counted import counted
from tandem.views.decode.file import value_ends
from tandem.views.errors import TandemError
from tandem.views.source.source import Source


def run(
    call: Call,
    *,
    file_or_address: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="The file to send, or a folder of files. Unpacked if its name ends in .gz or .zst; - is standard input, and "
            "tcp://HOST:PORT listens there, mqtt://HOST:PORT/FILTER subscribes; s3://BUCKET/PREFIX needs --follow.",
        ),
    ],
    source: Annotated[str, typer.Option(help="The source whose topic receives the records.")],
    topic: Annotated[str | None, typer.Option(help="The topic, if the source has several.")] = None,
    follow: Annotated[
        bool,
        typer.Option(
            "--follow", help="Continue with appended lines, across rotations, or with a folder's new files, until interrupted."
        ),
    ] = False,
    allow_rejects: Annotated[
        bool,
        typer.Option(
            "--allow-rejects", help="Send FILE even if most of its first records cannot be decoded, or it is not a text."
        ),
    ] = False,
    client_id: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Of mqtt: the client's id, which names its session. Default: tandem.PROJECT.SOURCE."),
    ] = None,
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

    * If the source's decoder is JSON, a file may also be an array of values, or have values of several lines.
    * The rows of a file whose name ends in .parquet become JSON objects, or rows of CSV where the source's decoder is CSV
      (docs/formats.md).
    * If the source's decoder is Avro or Protobuf, values are bytes without line ends: each has its length before it, as a varint.
      An Avro container is read, too, if its schema is the source's (docs/formats.md).
    * Of a folder all files are sent, by name, except those whose names begin with a dot or underscore.
    * With --follow a folder's files are sent as they appear, each content once over all runs, whatever its names and whatever
      ends the command. Move complete files into it: a file is read once its size and time stay the same for a second.
      s3://BUCKET/PREFIX is followed like a folder, as are gs://, az:// and abfss:// (docs/feed-a-folder.md).

    tcp://:9999 listens on 127.0.0.1, until interrupted, for clients that write lines. The log has acknowledged what a client sent
    before more of it is read. Lines of a connection that breaks, or of a killed command, may not have been sent: a socket has no
    acknowledgement, so use HTTP or Kafka where none may be lost.

    mqtt://HOST:PORT/FILTER, or mqtts, sends the messages of an MQTT broker, each as one record, until interrupted. The broker
    keeps those that the log has not acknowledged, also while the command does not run (docs/feed-from-mqtt.md).

    The command first decodes up to a thousand records from the file's first megabyte. If more than half of them are rejects, it
    sends nothing; if a few are, it prints an example. It also refuses files that are not text by their first bytes.

    The command succeeds only if all replicas acknowledged every record. It needs the broker, not the speed layer. With --wait
    it returns once answers count these records, whatever else is sent; `uncounted` is the number that they do not count yet.
    With --wait it also decodes all records, and `rejected` is the number that go to quarantine.
    """
    place, subscription, bucket = address_of(file_or_address), mqtt_address(file_or_address), bucket_address(file_or_address)
    if (place or subscription) and (follow or wait):
        raise typer.BadParameter(f"{file_or_address} is followed anyway, until interrupted; leave --follow and --wait out")
    if client_id is not None and subscription is None:
        raise typer.BadParameter("--client-id needs an address that begins with mqtt:// or mqtts://")
    if place is not None:
        return _listen(call, source, topic, place, allow_rejects=allow_rejects)
    if subscription is not None:
        return _subscribe(call, source, topic, subscription, client_id, allow_rejects=allow_rejects)
    if bucket is not None:
        if not follow or wait:
            raise typer.BadParameter(f"{file_or_address} is a bucket, which is followed: write --follow, and leave --wait out")
        return _follow_bucket(call, source, topic, bucket, allow_rejects=allow_rejects)
    file = Path(file_or_address)
    if follow and (str(file) == "-" or file.suffix in (".gz", ".zst", *SUFFIXES)):
        raise typer.BadParameter("--follow cannot read standard input, nor a .gz, .zst or Parquet file")
    settings = call.settings()
    to = source_of(definitions(call, Tables.of(settings)), source)
    if follow and file.is_dir():
        return _follow_files(call, to, topic_of(to, topic), FolderInbox(file), allow_rejects=allow_rejects)
    if follow and value_ends(to) == "lengths":
        raise typer.BadParameter(f"--follow reads lines; the values of source '{to.name}' are bytes, which have no line ends")
    to_topic = topic_of(to, topic)
    files = _files(call, file, follow=follow)
    address = broker.address(settings)
    connection = kafka.connect(address)
    found = topic_to_send_to(connection, to, to_topic)
    rejects = RejectGroups() if wait else None
    counts: dict[str, int] = {}
    with (
        stopping() if follow else nullcontext(Event()) as stop,
        nullcontext(DeferredInterrupt()) if follow else defer_interrupt() as interrupt,
        kafka.Sender(address) as sender,
        file_progress(call, None if follow else bytes_to_read(files)) as show,
    ):
        schemas = schemas_in(settings.registry, Tables.of(settings))
        sending = RecordSending(to, found.name, str(file), sender, show, rejects, schemas=schemas)
        if len(files) > 1:
            for each in files:
                with file_values(to, each, any_bytes=allow_rejects, remedy=FORCED) as values:
                    if not allow_rejects:
                        say_rejects(call.say, to, values, schemas)
        try:
            for each in files:
                if interrupt.requested:
                    break
                with _source_values(to, each, interrupt, follow=follow, any_bytes=allow_rejects) as values:
                    if values is not None and len(files) == 1 and not allow_rejects:
                        say_rejects(call.say, to, values, schemas)
                    if follow:
                        _follow(call, sending, each, stop)
                    elif values is not None:
                        before = sending.sent
                        _send_file(sending, values, interrupt)
                        counts[str(each)] = sending.sent - before
            sending.finish()
        except KeyboardInterrupt:
            raise _interruption(sending) from None
        if interrupt.requested:
            raise _interruption(sending)
    positions = Position.of({(found.id, partition): offset for (_, partition), offset in sender.positions.items()})
    document: dict[str, Any] = {"source": source, "sent": sender.acknowledged, "positions": positions.to_json()}
    shown = f"sent {sender.acknowledged} records to {source}; all acknowledged"
    if file.is_dir():
        document["files"] = [{"file": name, "sent": number} for name, number in counts.items()]
        shown = "\n".join([*(f"{name}: {counted(number, 'record')}" for name, number in counts.items()), shown])
    if rejects is None:
        return Output(document, shown)
    try:
        late = wait_until_counted(settings, {source: positions}, seconds=within, of=sender.acknowledged)
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted; {shown}, and are counted soon if the speed layer runs: see `tandem status`") from None
    output = counted_output(call, document | {"rejected": rejects.total, "reasons": rejects.reasons}, shown, late)
    return replace(output, shown=f"{output.shown}{_reject_sentence(rejects)}")


@contextmanager
def _source_values(
    source: Source, file: Path, interrupt: DeferredInterrupt, *, follow: bool, any_bytes: bool
) -> Iterator[FileValues | None]:
    """The file's values; None for a file to follow that does not exist yet."""
    if follow and not file.exists():
        yield None
        return
    interrupt.waiting = True  # a pipe may send its first bytes late
    with file_values(source, file, any_bytes=any_bytes, remedy=FORCED) as values:
        interrupt.waiting = False
        yield values


def _interruption(sending: RecordSending) -> Interrupted:
    """The error after Ctrl-C, once all records that were sent are acknowledged. Raises NotSent."""
    sending.finish()
    if not sending.last:
        return Interrupted("interrupted; nothing was sent")
    return Interrupted(
        f"interrupted; {counted(sending.sender.acknowledged, 'record')} sent, and acknowledged; the last begins at "
        f"{sending.unit} {sending.last} of {sending.file}: send what follows it, since records that are sent again may count "
        "twice"
    )


def _reject_sentence(rejects: RejectGroups) -> str:
    """How many records are rejects, and an example."""
    if not rejects.total:
        return "; none is rejected"
    return f"; {rejects.total} rejected: {by_reason(rejects.reasons)}, such as {rejects.largest(1)[0]}"


def _send_file(sending: RecordSending, values: FileValues, interrupt: DeferredInterrupt) -> None:
    """Send all values of a file, or those until Ctrl-C.

    Raises TandemError where the file cannot be read on, with the number of records sent before.
    """
    sending.file, sending.unit = values.name, values.unit
    try:
        remaining = iter(values)
        while not interrupt.requested:
            interrupt.waiting = True
            value = next(remaining, None)
            interrupt.waiting = False
            if value is None:
                break
            sending.add(value)
    except kafka.NotSent:
        raise
    except TandemError as error:
        raise _early_end(sending, error) from None
    sending.flush()


def _early_end(sending: RecordSending, error: TandemError) -> TandemError:
    """The error of a file that cannot be read on, once all records before that place are acknowledged."""
    sending.finish()
    return TandemError(f"{error}; {sending.sender.acknowledged} records before it were sent", code="file-unusable")


def _follow(call: Call, sending: RecordSending, file: Path, stop: Event) -> None:
    """Send the lines of a file that grows, until `stop` is set."""
    bundles = Bundles.of(sending.source, str(file))

    def flush() -> None:
        sending.extend(bundles.rest())
        sending.flush()

    def restart(why: str) -> None:
        sending.extend(bundles.cut_row())
        flush()
        bundles.seen = 0  # lines are counted from 1 again
        call.say(why)

    try:
        framed = value_ends(sending.source) == "framed lines"
        for line in followed(file, stop, idle=flush, restarted=restart, framed=framed):
            sending.extend(bundles.add(line))
    except UnclosedQuote as error:
        flush()
        raise _early_end(sending, error) from None
    flush()


def _listen(call: Call, name: str, topic: str | None, place: tuple[str, int], *, allow_rejects: bool) -> Output:
    """Send the lines that clients write to a socket, until Ctrl-C."""
    settings = call.settings()
    source = source_of(definitions(call, Tables.of(settings)), name)
    if value_ends(source) == "lengths":
        raise typer.BadParameter(f"a socket has lines; the values of source '{source.name}' are bytes, which have no line ends")
    address = broker.address(settings)
    to = topic_to_send_to(kafka.connect(address), source, topic_of(source, topic))
    with stopping() as stop, open_listener(*place) as listener, kafka.Sender(address) as sender:
        schemas = schemas_in(settings.registry, Tables.of(settings))
        sending = RecordSending(source, to.name, "", sender, lambda *_: None, schemas=schemas)
        feed = TcpFeed(source, sending, schemas, call.say, allow_rejects)
        host, port = listener.getsockname()[:2]
        call.say(f"listening on {host}:{port}; stop with Ctrl-C")
        feed.run(listener, stop)
        sending.finish()
    positions = Position.of({(to.id, partition): offset for (_, partition), offset in sender.positions.items()})
    document = {
        "source": name,
        "sent": sender.acknowledged,
        "connections": feed.connections,
        "positions": positions.to_json(),
    }
    return Output(document, summary(feed, name))


def _subscribe(
    call: Call, name: str, topic: str | None, place: MqttAddress, client_id: str | None, *, allow_rejects: bool
) -> Output:
    """Send the messages of an MQTT broker, until Ctrl-C."""
    try:
        from tandem.cli.log.mqtt_feed import MqttFeed  # noqa: PLC0415 - its client is not installed everywhere
    except ModuleNotFoundError as error:
        raise TandemError(f"{place} needs the package paho-mqtt: `pip install tandem[mqtt]`", code="packages-missing") from error
    settings = call.settings()
    source = source_of(definitions(call, Tables.of(settings)), name)
    address = broker.address(settings)
    to = topic_to_send_to(kafka.connect(address), source, topic_of(source, topic))
    if not source.identity:
        call.say(f"tandem: source {name!r} has no identity: a message that the broker delivers again counts twice")
    with stopping() as stop, kafka.Sender(address) as sender:
        schemas = schemas_in(settings.registry, Tables.of(settings))
        feed = MqttFeed(source, to.name, place, sender, schemas, call.say, allow_rejects)
        feed.run(settings.mqtt, client_id or f"tandem.{call.project.name}.{name}", stop)
    positions = Position.of({(to.id, partition): offset for (_, partition), offset in sender.positions.items()})
    document = {"source": name, "sent": sender.acknowledged, "positions": positions.to_json()}
    return Output(document, f"sent {counted(sender.acknowledged, 'message')} to {name}; all acknowledged")


def _follow_bucket(call: Call, name: str, topic: str | None, address: str, *, allow_rejects: bool) -> Output:
    """Send what a prefix of a bucket has and gets, until Ctrl-C."""
    settings = call.settings()
    source = source_of(definitions(call, Tables.of(settings)), name)
    with BucketInbox(address, bucket_options(call.environ, settings.storage.options)) as inbox:
        return _follow_files(call, source, topic_of(source, topic), inbox, allow_rejects=allow_rejects)


def _follow_files(call: Call, source: Source, topic: str, inbox: Inbox, *, allow_rejects: bool) -> Output:
    """Send what an inbox has and gets, until Ctrl-C."""
    settings = call.settings()
    tables, address = Tables.of(settings), broker.address(settings)
    connection = kafka.connect(address)
    to = topic_to_send_to(connection, source, topic)
    name, ends = f"tandem-feed.{source.name}.{topic}", kafka.ends(connection, [to])
    with stopping() as stop, kafka.ExactlyOnceAppender(address, to, name, ends) as appender:
        journal = FedFiles(tables, source.name, to.id)
        schemas = schemas_in(settings.registry, tables)
        feed = FolderFeed(source, inbox, to, appender, journal, schemas, call.say, allow_rejects)
        feed.resume()
        call.say(f"following {inbox}; stop with Ctrl-C")
        feed.run(stop)
        if (stored := appender.newest()) is not None:
            ends = {**ends, **stored.ends}
    document = {"source": source.name, "sent": feed.sent, "files": feed.files, "positions": Position.of(ends).to_json()}
    return Output(document, f"sent {feed.sent} records of {counted(feed.files, 'whole file')} to {source.name}; all acknowledged")


def _files(call: Call, file: Path, *, follow: bool) -> list[Path]:
    """The files to send. Pipes and devices are read as files are; to follow a file waits for it. Raises TandemError."""
    if str(file) != "-" and not follow and not file.exists():
        raise TandemError(f"cannot read {file}: the file does not exist", code="file-unusable")
    if not file.is_dir():
        return [file]
    files = folder_files(file)
    if names := partition_folders(file, files):
        call.say(
            f"tandem: values in names of folders, such as {names[0]}, are not in the rows of their files, so they are not sent"
        )
    return files
