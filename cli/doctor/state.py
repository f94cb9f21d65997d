"""Checks of locks, incomplete work (processes, archive runs, imports, applies), gaps, and left-over files."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from tandem.batch.runtime.scratch import FOLDER
from tandem.cli.doctor.check import Check, FailedCheck, Finding, ok, unless
from tandem.cli.doctor.subject import Subject
from tandem.infra.process import background
from tandem.ledger.delta.one_writer import write_locks
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.gaps import Gaps
from tandem.ledger.publish.diffs import ReleaseDiffs
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Releases
from tandem.ledger.publish.standing import Followed, StandingReleases
from tandem.serving.read.merged_layers import Reader
from tandem.serving.status.part_signs import part_states
from tandem.serving.status.rejected_tails import archive_tail, tail_of_rejects
from tandem.speed.source import checkpoints
from tandem.views.counted import counted

_SPARK_AGE: Final = timedelta(hours=1)
"""A younger folder may belong to a run that has started Spark but does not hold its lock yet."""

ORPHAN: Final = FailedCheck(
    "warn",
    "a lock is held although the process that took it has ended: its JVM still runs, or another program holds the lock",
    "wait a moment and run `tandem doctor` again; if the lock is still held, `kill {pid}`",
)
GONE: Final = FailedCheck(
    "warn", "a part that `up` has started is dead, but was not stopped", "see `{log}`; `tandem up` restarts it"
)
STILL: Final = FailedCheck(
    "fail",
    "a part runs without progress, or its supervisor has given up on it",
    "`tandem status` shows since when, why and how to fix it; `tandem down`, then `tandem up` restarts it",
)
SILENT: Final = FailedCheck(
    "fail",
    "more than half of the newest records of a source are rejected: most often its producer has changed the schema or the format",
    "see `tandem quarantine --source {source}`; correct the producer, or the definitions, then run `tandem plan`",
)
BAD_RECORD: Final = FailedCheck("warn", "the record of a process cannot be read", "`tandem down`, then `tandem up`")
UNFINISHED_RUN: Final = FailedCheck("warn", "an archive run is incomplete, or an import is not decoded yet", "`tandem archive`")
UNFINISHED_IMPORT: Final = FailedCheck(
    "warn", "an import is incomplete; `archive` waits for it", "run `tandem import` again with the same folder"
)
UNFINISHED_APPLY: Final = FailedCheck(
    "warn", "an `apply` is incomplete", "`tandem apply` continues it; `tandem retire {release}` discards it"
)
GAP: Final = FailedCheck(
    "fail",
    "a source lost records before they were archived, and the gap is not accepted: recomputes refuse to run",
    "`tandem recompute --accept-gap {gap}` continues without these records",
)
SCRATCH: Final = FailedCheck("warn", "a killed run left scratch files", "`tandem maintain` deletes them")
CHECKPOINTS: Final = FailedCheck(
    "warn",
    "a killed speed layer left its checkpoints",
    "`tandem down`, then `tandem up` deletes them; they are not used",
)
SPARK: Final = FailedCheck(
    "warn", "a killed Spark process left temporary folders", "while no part and no batch run is active, `rm -r {folders}`"
)


def _locks(subject: Subject) -> Iterator[Finding]:
    found, held = [], []
    for path in sorted(_lock_folder(subject).glob("*.lock")):
        pid, owner = write_locks.holding(path), write_locks.owner(path)
        if pid is None:
            continue
        if owner is not None and background.start_time(owner.pid):
            held.append(f"{path.name} by {owner}")
        else:
            by = "an unknown process" if owner is None else f"{owner}, which has ended,"
            found.append(ORPHAN.found(f"process {pid} holds {path}; {by} took it", pid=pid))
    yield from unless(found, f"held: {', '.join(held)}" if held else "none is held")


def _lock_folder(subject: Subject) -> Path:
    return subject.tables.lock("any").parent


def _held(subject: Subject, name: str) -> bool:
    """Whether a process holds this lock, and so writes its tables."""
    path = subject.tables.lock(name)
    return path.exists() and write_locks.holding(path) is not None


def _processes(subject: Subject) -> Iterator[Finding]:
    state, found, live = subject.settings.folder, [], []
    for name in background.names(state):
        known = background.recorded(state, name)
        if known is None:
            found.append(BAD_RECORD.found(f"{state / 'run' / name}.json does not name a process"))
        elif background.alive(known):
            live.append(f"{name} (process {known.pid})")
        else:
            found.append(GONE.found(f"{name} (process {known.pid}) is dead", log=known.log))
    found += [
        STILL.found(one.sentence) for one in part_states(subject.settings, now=subject.now) if one.red and one.state != "dead"
    ]
    yield from unless(found, f"running: {', '.join(live)}" if live else "nothing is running")


def _runs(subject: Subject) -> Iterator[Finding]:
    if _held(subject, "archive"):
        yield ok("an archive run is active")
        return
    tables, found = subject.tables, []
    decoders = {(name, one) for state in _followed(subject) for name, one in Releases(tables).load(state.release).sources.items()}
    for source in tables.names("control", "runs"):
        ledger = ArchiveLedger(tables, source)
        waiting = [run.number for run in ledger.unwritten() if run.imported]
        if waiting:
            found.append(UNFINISHED_IMPORT.found(f"source '{source}': the records of run {waiting[0]} are not imported yet"))
            continue
        known = {run.number for run in ledger.runs()}
        finished = known if any(name == source for name, _ in decoders) else set[int]()
        for decoder in (decoder for name, decoder in decoders if name == source):
            finished = finished & {one.run for one in ledger.summaries(decoder)}
        if left := known - finished:
            found.append(UNFINISHED_RUN.found(f"source '{source}': run {min(left)} of {max(known)} is incomplete"))
    yield from unless(found, "all archive runs are complete")


def _followed(subject: Subject) -> list[Publication]:
    return Followed(StandingReleases(subject.tables), subject.settings.keep.release_days).states(subject.now)


def _gaps(subject: Subject) -> Iterator[Finding]:
    live = Publications(subject.tables).latest()
    accepted = () if live is None else live.gaps
    found = (
        GAP.found(f"gap {gap.name} of source '{gap.source}': {gap.ranges.length} offsets are lost ({gap.reason})", gap=gap.name)
        for gap in Gaps(subject.tables).every()
        if gap.name not in accepted
    )
    yield from unless(found, "every recorded loss is accepted" if accepted else "no recorded losses")


def _rejects(subject: Subject) -> Iterator[Finding]:
    silent: list[Finding] = []
    snapshot = None if Publications(subject.tables).latest() is None else Reader(subject.tables).snapshot()
    decoders = {} if snapshot is None else Releases(subject.tables).load(snapshot.publication.release).sources
    for name, decoder in decoders.items():
        assert snapshot is not None  # else there are no decoders
        if rejects := tail_of_rejects(snapshot.tails[name], archive_tail(subject.tables, name, decoder)):
            silent.append(SILENT.found(rejects.warning(name), source=name))
    yield from unless(silent, "the newest records of every source decode")


def _apply(subject: Subject) -> Iterator[Finding]:
    if _held(subject, "views"):
        yield ok("a batch run is active")
        return
    tables, found = subject.tables, []
    live = {each.release for each in Publications(tables).history()}
    newest = {one.state.release: one for one in StandingReleases(tables).records()}
    for number, one in sorted(newest.items()):
        if one.over:
            continue
        if one.stage == "applied" or (number not in live and ReleaseDiffs(tables).of_release(number) is None):
            what = "is not built" if one.stage == "applied" else "is built, but not compared with the live one"
            found.append(UNFINISHED_APPLY.found(f"release {number} {what}", release=number))
    yield from unless(found, "no incomplete apply")


def _leftovers(subject: Subject) -> Iterator[Finding]:
    yield from unless(
        [*_scratch(subject), *_checkpoints(subject), *_spark(subject)],
        "no left-over files",
    )


def _scratch(subject: Subject) -> Iterator[Finding]:
    files = list(subject.tables.storage().list_after(FOLDER))
    if files and not _held(subject, "views"):
        yield SCRATCH.found(f"{counted(len(files), 'file')} in {subject.tables.below(FOLDER).root}")


def _checkpoints(subject: Subject) -> Iterator[Finding]:
    dead = [folder for folder, lives in checkpoints.folders(subject.settings.folder) if not lives]
    if dead:
        yield CHECKPOINTS.found(", ".join(map(str, dead)))


def _spark(subject: Subject) -> Iterator[Finding]:
    """Yield left-over folders of Spark: those that exist while no batch run and no speed layer is active."""
    state = subject.settings.folder
    at_work = any(lives for _, lives in checkpoints.folders(state)) or any(_held(subject, name) for name in ("archive", "views"))
    folders = [path for kind in ("blockmgr-*", "spark-*") for path in sorted((state / "spark").glob(kind))]
    old = [path for path in folders if subject.now - datetime.fromtimestamp(path.stat().st_mtime, UTC) > _SPARK_AGE]
    if old and not at_work:
        yield SPARK.found(f"{counted(len(old), 'folder')} in {state / 'spark'}", folders=" ".join(map(str, old)))


_UNREADABLE: Final = FailedCheck("fail", "the records of releases and runs cannot be read", "see `tables`")

CHECKS: Final = (
    Check(
        "locks",
        _locks,
        FailedCheck("fail", "a lock file cannot be opened", "make the named file or folder readable and writable"),
        (ORPHAN,),
        needs=("state",),
    ),
    Check(
        "processes",
        _processes,
        FailedCheck("fail", "the records of processes cannot be read", "make the named file or folder readable"),
        (GONE, STILL, BAD_RECORD),
        needs=("state",),
    ),
    Check("runs", _runs, _UNREADABLE, (UNFINISHED_RUN, UNFINISHED_IMPORT), needs=("state",)),
    Check("gaps", _gaps, _UNREADABLE, (GAP,), needs=("state",)),
    Check("rejects", _rejects, _UNREADABLE, (SILENT,), needs=("state",)),
    Check("apply", _apply, _UNREADABLE, (UNFINISHED_APPLY,), needs=("state",)),
    Check(
        "leftovers",
        _leftovers,
        FailedCheck(
            "fail", "the folders of the state folder cannot be searched", "make the named file or folder readable and writable"
        ),
        (SCRATCH, CHECKPOINTS, SPARK),
        needs=("state",),
    ),
)
