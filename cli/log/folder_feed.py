"""Sends the files of a folder or bucket as they appear, each content once, whatever ends the command.

Records of a file are committed in transactions, each with the progress through the file. A file that is sent whole gets a row in
the journal of fed files before the next one begins, so a later run needs the progress of one file and the journal.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Final

from tandem.cli.log.inbox import FileChanged, Inbox
from tandem.cli.log.sending import RecordSending, say_rejects
from tandem.cli.records.file_values import FORCED, FileValues, file_values
from tandem.infra import clock, kafka
from tandem.ledger.log.fed_files import FedFile, FedFiles
from tandem.ledger.log.registry_schemas import RegistrySchemas
from tandem.views.counted import counted
from tandem.views.decode.file import layout, value_ends
from tandem.views.errors import TandemError
from tandem.views.source.source import Source

_MOST_RECORDS: Final = 5_000
_MOST_BYTES: Final = 8 << 20
_BLOCK: Final = 1 << 20


@dataclass
class _Transaction:
    """The records that the next transaction appends."""

    records: list[kafka.Record] = field(default_factory=list)
    acknowledged: int = 0
    _bytes: int = 0

    @property
    def is_full(self) -> bool:
        return len(self.records) >= _MOST_RECORDS or self._bytes >= _MOST_BYTES

    def send(self, topic: str, value: bytes | None, key: bytes | None = None) -> None:  # noqa: ARG002 - the appender has the topic
        self.records.append(kafka.Record(0, key, value))
        self._bytes += len(value or b"")

    def poll(self) -> None:
        """Nothing is on its way before the commit."""

    def finish(self) -> None:
        """Nothing is on its way before the commit."""

    def clear(self) -> None:
        self.acknowledged += len(self.records)
        self.records.clear()
        self._bytes = 0


@dataclass
class FolderFeed:
    """The files of an inbox on their way to a topic. `sent` counts records, `files` those that were sent whole by this run.

    Call `resume`, then `run`. Raises TandemError for a file that cannot be sent; nothing of it was sent then.
    """

    source: Source
    inbox: Inbox
    topic: kafka.Topic
    appender: kafka.ExactlyOnceAppender
    journal: FedFiles
    schemas: RegistrySchemas
    say: Callable[[str], None]
    allow_rejects: bool = False
    sent: int = 0
    files: int = 0
    _fed: dict[tuple[str, int], FedFile] = field(default_factory=dict, init=False, repr=False)
    _begun: FedFile | None = field(default=None, init=False)
    """The file of which a part is committed."""
    _names: set[tuple[str, int, int]] = field(default_factory=set, init=False, repr=False)
    _looked: dict[str, tuple[int, int]] = field(default_factory=dict, init=False, repr=False)

    def resume(self) -> None:
        """Read what earlier runs have sent. Raises NoBroker, Unreadable."""
        for file in self.journal.every():
            self._remember(file)
        if (stored := self.appender.newest()) is not None:
            file, whole = _progress(stored.text)
            if (file.sha256, file.size) in self._fed:
                return
            if whole:
                self._record(file)
            else:
                self._begun = file

    def run(self, stop: Event) -> None:
        """Send what the inbox has and gets, until `stop` is set; the next run continues a file that is sent in part."""
        try:
            self._run(stop)
        except TandemError as error:
            if (sentence := self.inbox.wording(str(error))) == str(error):
                raise
            raise TandemError(sentence, code=error.code) from error

    def _run(self, stop: Event) -> None:
        while True:
            stopping = stop.is_set()
            for name in self._complete_files():
                if stop.is_set():
                    break
                self._send(name, stop)
            if stopping:
                return
            stop.wait(self.inbox.every_s)

    def _complete_files(self) -> list[str]:
        """The names of the files that are complete and not sent yet, in the order in which they were changed."""
        before, self._looked = self._looked, dict(self.inbox.looks())
        complete = [name for name, look in self._looked.items() if self.inbox.appears_whole or before.get(name) == look]
        if self._begun is not None:
            return self._file_to_continue(complete)
        fresh = [name for name in complete if (name, *self._looked[name]) not in self._names]
        return sorted(fresh, key=lambda name: (self._looked[name][1], name))

    def _file_to_continue(self, complete: list[str]) -> list[str]:
        """The file that has the content of which a part is committed. Raises TandemError once no file can have it."""
        begun = self._begun
        assert begun is not None
        try:
            for name in sorted(complete, key=lambda name: name != begun.name):
                if self._looked[name][0] >= begun.size and self._digests(name, [begun.size])[begun.size] == begun.sha256:
                    return [name]
        except FileChanged:
            return []  # the next look may find it
        if len(complete) < len(self._looked):
            return []
        self._record(begun)
        raise TandemError(
            f"{self.inbox}/{begun.name} was changed or removed after {counted(begun.records, 'record')} of it; to send the "
            "others, write them to a new file",
            code="file-unusable",
        )

    def _send(self, name: str, stop: Event) -> None:
        look = self._looked[name]
        try:
            path = self.inbox.local(name, look)
            fed = [file.size for file in self._parts() if file.size <= look[0]]
            digests = self._digests(name, [*fed, look[0]])
            file = FedFile(name, look[0], look[1], digests[look[0]], 0)
            if (same := self._fed.get((file.sha256, file.size))) is not None:
                self._say(f"{path} has the content of {same.name}, which was sent, so it is left out")
                self._names.add((name, *look))
                return
            file = replace(file, records=self._records_before(path, file, digests))
            with file_values(self.source, path, any_bytes=self.allow_rejects, remedy=FORCED) as values:
                if not self.allow_rejects:
                    say_rejects(self._say, self.source, values, self.schemas)
                _check_all(values, path)
            with file_values(self.source, path, any_bytes=self.allow_rejects) as values:
                self._send_values(file, values, stop)
        except FileChanged:
            return  # the next look hashes it again

    def _send_values(self, file: FedFile, values: FileValues, stop: Event) -> None:
        transaction = _Transaction()
        sending = RecordSending(
            self.source, self.topic.name, values.name, transaction, lambda *_: None, unit=values.unit, schemas=self.schemas
        )

        def commit(*, whole: bool) -> FedFile:
            sending.flush()
            if not self.inbox.stays(file.name, (file.size, file.modified)):
                raise FileChanged
            committed = replace(file, records=file.records + sending.sent)
            self.appender.append(transaction.records, _text(committed, whole=whole))
            self.sent += len(transaction.records)
            transaction.clear()
            self._begun = None if whole else committed
            return committed

        for number, value in enumerate(values):
            if number < file.records:
                continue
            # Not before there is a value more: the last value of a file that grows may change.
            if transaction.is_full or len(sending.values) >= _MOST_RECORDS:
                commit(whole=False)
                if stop.is_set():
                    return
            sending.add(value)
        self._record(whole := commit(whole=True))
        self.files += 1
        self._say(f"{self.inbox}/{file.name}: {counted(whole.records - file.records, 'record')} sent")

    def _parts(self) -> Iterable[FedFile]:
        """What a file may begin with: the content of files that are sent, in whole or in part."""
        return (file for file in (*self._fed.values(), *filter(None, [self._begun])) if file.records)

    def _records_before(self, path: Path, file: FedFile, digests: Mapping[int, str]) -> int:
        """How many first records of the file are sent: it continues another one, or has grown. Raises TandemError."""
        begun = self._begun
        if begun is not None and digests.get(begun.size) == begun.sha256:
            return begun.records
        before = [part for part in self._parts() if part.size < file.size and digests[part.size] == part.sha256]
        if not before:
            return 0
        longest = max(before, key=lambda part: part.size)
        if not self._can_grow(path, longest.size):
            raise TandemError(
                f"{path} begins with the content of {longest.name}, which was sent, and does not go on with a new record; write "
                "what is new to a file of its own",
                code="file-unusable",
            )
        self._say(
            f"{path} begins with the content of {longest.name}, which was sent: its first "
            f"{counted(longest.records, 'record')} are left out"
        )
        return longest.records

    def _can_grow(self, path: Path, size: int) -> bool:
        """Whether the records of a file's first bytes stay the same when it grows: each is a line, and the last has its end."""
        if value_ends(self.source) == "lengths" or layout(self.source).lines != 1 or path.suffix in (".gz", ".zst"):
            return False
        with path.open("rb") as stream:
            stream.seek(size - 1)
            return stream.read(1) == b"\n"

    def _digests(self, name: str, sizes: Iterable[int]) -> dict[int, str]:
        """SHA-256 of the file's first bytes, for each of these numbers of bytes. Raises FileChanged."""
        return _digests(self.inbox.local(name, self._looked[name]), sizes)

    def _say(self, text: str) -> None:
        self.say(self.inbox.wording(text))

    def _record(self, file: FedFile) -> None:
        self.journal.add(file, at=clock.now())
        self._remember(file)
        self._begun = None

    def _remember(self, file: FedFile) -> None:
        self._fed[(file.sha256, file.size)] = file
        self._names.add((file.name, file.size, file.modified))


def _check_all(values: FileValues, path: Path) -> None:
    """Read all values. Raises TandemError if one cannot be read or sent, before any is."""
    for value in values:
        if len(value.value) > kafka.MOST_BYTES:
            raise TandemError(
                f"{values.unit} {value.line} of {path} has {len(value.value)} bytes; a record has at most {kafka.MOST_BYTES}",
                code="file-unusable",
            )


def _digests(path: Path, sizes: Iterable[int]) -> dict[int, str]:
    """SHA-256 of the file's first bytes, for each of these numbers of bytes. Raises FileChanged if it has fewer, or is gone."""
    digests, digest, at = {}, hashlib.sha256(), 0
    if not path.exists():
        raise FileChanged
    with path.open("rb") as stream:
        for size in sorted(set(sizes)):
            while at < size:
                block = stream.read(min(_BLOCK, size - at))
                if not block:
                    raise FileChanged
                digest.update(block)
                at += len(block)
            digests[size] = digest.hexdigest()
    return digests


def _text(file: FedFile, *, whole: bool) -> str:
    return json.dumps({**vars(file), "whole": whole})


def _progress(text: str) -> tuple[FedFile, bool]:
    """The file of a transaction's text, and whether it is sent whole."""
    document = json.loads(text)
    whole = document.pop("whole")
    return FedFile(**document), whole
