"""Checks of Delta tables: protocol, missing and torn files, and first of all the files that the newest publication names."""

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Final

from deltalake import DeltaTable

from tandem.cli.doctor.check import Check, FailedCheck, Finding, ok, unless
from tandem.cli.doctor.subject import Subject
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.delta.errors import Unreadable
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.publish import batch_parts
from tandem.ledger.publish.batch_parts import damage
from tandem.ledger.publish.publications import Publications
from tandem.views.counted import counted

_KINDS: Final = ("control", "log", "views", "realtime")

JOURNAL: Final = FailedCheck(
    "fail", "a control table cannot be read, or a file of it is missing or torn", "restore `{folder}` from a backup"
)
ARCHIVE: Final = FailedCheck(
    "fail",
    "an archive cannot be read, is gone, or a file of it is missing or torn",
    "restore `{folder}` from a backup; or `tandem import` an export into a new state folder",
)
DECODED: Final = FailedCheck(
    "fail",
    "an events or quarantine table cannot be read, or a file of it is missing or torn",
    "remove `{summaries}`, then `{folder}`; `tandem archive` decodes the archive again",
)
REALTIME: Final = FailedCheck(
    "fail",
    "a realtime table cannot be read, or a file of it is missing or torn",
    "`tandem down`, remove `{folder}`, `tandem up`: the speed layer continues from the cut",
)
VIEW: Final = FailedCheck("fail", "a view's table cannot be opened", "remove `{folder}`; then see `views`")
OLD_PART: Final = FailedCheck(
    "warn",
    "a file of a batch version that the newest publication does not name is missing or torn",
    "not needed: `tandem maintain` deletes it when no retained publication names it",
)
NOT_PLAIN: Final = FailedCheck(
    "fail",
    "a table's protocol needs a reader version above 1, such as for deletion vectors, which Tandem would ignore",
    "restore a backup of `{folder}` from before another program changed it, or let Spark drop the table's features",
)
WRITER: Final = FailedCheck(
    "warn",
    "a table's protocol needs a writer version above 2: Tandem's commits may fail",
    "restore a backup of `{folder}` from before another program changed it, or let Spark drop the table's features",
)
LOST_PART: Final = FailedCheck(
    "fail",
    "a file that the newest publication names is missing or torn, or its rows differ",
    "`tandem recompute {view}` rebuilds it from the archive",
)


def _tables(subject: Subject) -> Iterator[Finding]:
    addresses, named = _addresses(subject.tables), _named(subject.tables)
    yield from unless(
        chain.from_iterable(chain((_looked_at(subject, one, named) for one in addresses), (_gone(subject.tables),))),
        f"{len(addresses)} Delta tables, all complete and of reader version 1",
    )


def _addresses(tables: Tables) -> list[str]:
    """Return the addresses of all Delta tables, sorted."""
    names = (head.name.partition("/_delta_log/") for kind in _KINDS for head in tables.storage().list_after(kind))
    return sorted({tables.address(table) for table, log, _ in names if log})


def _named(tables: Tables) -> frozenset[tuple[str, int]]:
    """Return the batch versions, by table, that the newest publication names; none if it cannot be read, which another check
    finds.
    """
    try:
        newest = Publications(tables).latest()
    except Unreadable:
        return frozenset()
    views = newest.views.items() if newest else ()
    return frozenset((view.address(tables, name), part.version) for name, view in views for part in view.parts)


def _looked_at(subject: Subject, address: str, named: frozenset[tuple[str, int]]) -> Iterator[Finding]:
    try:
        handle = delta_tables.open_table(subject.tables, address)
        if handle is None:
            yield _problem(subject, address).found(f"{address} has an empty log", **_names(subject, address))
            return
        yield from _protocol(address, handle)
        handle, damaged = looked_through(handle)
    except Unreadable as error:
        yield _problem(subject, address).found(str(error), **_names(subject, address))
        return
    problem = _problem(subject, address)
    if problem is VIEW:
        versions = batch_parts.paths(handle)
        damaged = [path for path in damaged if (address, versions[path]) not in named]  # the check `views` finds the others
        problem = OLD_PART
    if damaged:
        yield problem.found(
            f"{address}: {counted(len(damaged), 'file')} missing or torn, such as {damaged[0]}", **_names(subject, address)
        )


def _protocol(address: str, handle: DeltaTable) -> Iterator[Finding]:
    protocol = handle.protocol()
    features = sorted({*(protocol.reader_features or ()), *(protocol.writer_features or ())})
    asked = f"reader version {protocol.min_reader_version}, writer version {protocol.min_writer_version}"
    found = f"{address} needs {asked}{', ' + ', '.join(features) if features else ''}; Tandem supports 1 and 2"
    if protocol.min_reader_version > 1:
        yield NOT_PLAIN.found(found, folder=address)
    elif protocol.min_writer_version > 2:
        yield WRITER.found(found, folder=address)


def looked_through(handle: DeltaTable) -> tuple[DeltaTable, list[str]]:
    """Return the table as last read, and its damaged files. Raises Unreadable."""
    if any(delta_tables.damaged(handle, delta_tables.files(handle))):
        handle = delta_tables.reopen(handle)  # the owner may have removed and deleted them meanwhile
    return handle, list(delta_tables.damaged(handle, delta_tables.files(handle)))


def _gone(tables: Tables) -> Iterator[Finding]:
    """Yield missing archives."""
    for source in tables.names("control", "summaries"):
        address = tables.archive(source)
        if ArchiveLedger(tables, source).runs() and not any(tables.storage().list_after(tables.name(address))):
            yield ARCHIVE.found(f"{address} is missing, although archive runs wrote it", folder=address)


def _problem(subject: Subject, address: str) -> FailedCheck:
    """Return the problem of a damaged table."""
    kind, *_, last = subject.tables.name(address).split("/")
    log = ARCHIVE if last == "archive" else DECODED
    return {"control": JOURNAL, "log": log, "views": VIEW, "realtime": REALTIME}[kind]


def _names(subject: Subject, address: str) -> Mapping[str, object]:
    """Return the names in the fixes. A decoder's events, quarantine and summaries belong together."""
    if _problem(subject, address) is not DECODED:
        return {"folder": address}
    source, decoder = subject.tables.name(address).split("/")[-3:-1]
    return {"folder": subject.tables.decoded(source, decoder), "summaries": subject.tables.control("summaries", source, decoder)}


def _views(subject: Subject) -> Iterator[Finding]:
    newest = Publications(subject.tables).latest()
    if newest is None:
        yield ok("nothing is published yet")
        return
    lost = (
        LOST_PART.found(f"view '{name}', publication {newest.number}: {what}", view=name)
        for name, view in newest.views.items()
        for part in view.parts
        for what in damage(subject.tables, view.address(subject.tables, name), part)
    )
    yield from unless(lost, f"publication {newest.number}: all {len(newest.views)} views complete")


CHECKS: Final = (
    Check(
        "tables",
        _tables,
        FailedCheck("fail", "the folder of the tables cannot be searched", "make the named file or folder readable"),
        (JOURNAL, ARCHIVE, DECODED, REALTIME, VIEW, OLD_PART, NOT_PLAIN, WRITER),
        needs=("state",),
    ),
    Check(
        "views",
        _views,
        FailedCheck("fail", "the publications cannot be read", "see `tables`"),
        (LOST_PART,),
        needs=("state",),
    ),
)
