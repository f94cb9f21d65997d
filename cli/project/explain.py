"""`tandem explain`: how a view is computed, from its definition and its tables, without Java or Spark."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any

import pyarrow as pa
import typer

from tandem.batch.runtime.parallelism import buckets, in_log_order, slices
from tandem.cli.command.call import Call, Output
from tandem.cli.command.drift import working_tree_drift
from tandem.cli.project.measure_costs import facts_of, said, size
from tandem.infra.settings import Settings
from tandem.ledger.delta import delta_tables
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.files.file_ranges import EVENTS, file_ranges
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.positions import LOG_START, distance, ranges
from tandem.ledger.publish.batch_parts import BatchView, files_of
from tandem.ledger.publish.publications import Publication, Publications
from tandem.ledger.publish.releases import Releases
from tandem.serving.memory.store import SHARE_OF_READS
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.realtime_tail import RealtimeTail
from tandem.serving.read.snapshot import provenance_of
from tandem.serving.read.states import ReadCache
from tandem.views.arrow.arrays import from_ipc
from tandem.views.bound_view import BoundMeasure
from tandem.views.composite.dated import starts
from tandem.views.composite.rollup import root
from tandem.views.composite.table import origin
from tandem.views.composite.together import parts, several
from tandem.views.errors import TandemError, listed
from tandem.views.exactness import Exactness, span
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint, fingerprint
from tandem.views.kernel.deduplicate import identity_columns
from tandem.views.measures.filtered import bare
from tandem.views.project.project import Project
from tandem.views.read_columns import columns
from tandem.views.source.decoder import decoder_name
from tandem.views.start import start_document, start_sentence
from tandem.views.view import View, answer_schema, bind, shared_columns, state_schema


@dataclass(frozen=True)
class _Live:
    """A published view, and its project's tables at one snapshot."""

    settings: Settings
    tables: Tables
    project: Project
    view: View
    publication: Publication
    tail: RealtimeTail
    exactness: Exactness

    @property
    def batch(self) -> BatchView:
        """Its live batch version."""
        return self.publication.views[self.view.name]

    @property
    def together(self) -> list[View]:
        """All views of its source."""
        return [one for one in self.project.views.values() if one.source.name == self.view.source.name]

    @property
    def others(self) -> list[str]:
        """The names of the other views of its source."""
        return [one.name for one in self.together if one.name != self.view.name]


def run(call: Call, view: Annotated[str, typer.Argument(help="The view's name.")]) -> Output:
    """Show a view's plan: its logical steps, and what the batch, speed and serving layers read and store for it now.

    The command explains the published definitions, or the project folder's before the first publication. It runs nothing.
    """
    settings = call.settings()
    tables = Tables.of(settings)
    live = Publications(tables).latest()
    reader = None if live is None else Reader(tables)
    project = call.definitions() if reader is None else reader.project()
    if reader is not None:
        working_tree_drift(call, reader)
    if view not in project.every_view:
        raise TandemError(f"no view {view!r}; views: {listed(view, project.every_view)}", code="view-unknown")
    explained = project.every_view[view]
    if not several(explained):
        document = _document(settings, project, explained, reader, live)
        return Output(document, "\n".join(_lines(document)))
    each = {part.source.name: _document(settings, project, part, reader, live) for part in parts(root(explained))}
    whole = {**_name_and_origin(explained, live), "logical": _of_states(explained), "parts": each}
    unites = (
        f"view {root(explained).name} reads {len(each)} sources; it stores nothing, and unites the states of a part for each:"
    )
    lines = [*_whence(whole), unites, "", "logical", *_indent(_steps(whole["logical"]))]
    for source, part_document in each.items():
        lines += ["", f"part of source {source}", *_lines(part_document)]
    return Output(whole, "\n".join(lines))


def _document(
    settings: Settings, project: Project, explained: View, reader: Reader | None, live: Publication | None
) -> dict[str, Any]:
    """What is explained of a view over one source."""
    document: dict[str, Any] = {
        **_name_and_origin(explained, live),
        "logical": {**_of_events(explained), **_of_states(explained)},
        "batch": None,
        "speed": None,
        "serving": None,
    }
    if reader is not None:
        snapshot = reader.snapshot()
        stands = (snapshot.publication, snapshot.tail(explained))
        exactness = provenance_of(snapshot, explained, "merged", {}).exactness
        live_view = _Live(settings, reader.tables, project, root(explained), *stands, exactness)
        document |= {"batch": _batch(live_view), "speed": _speed(live_view), "serving": _serving(live_view)}
    return document


def _name_and_origin(explained: View, live: Publication | None) -> dict[str, Any]:
    """A view, where its definition is from, and what it is made of."""
    return {
        "view": explained.name,
        "fingerprint": fingerprint(explained),
        "publication": None if live is None else live.number,
        "release": None if live is None else live.release,
        **origin(explained),
    }


def _of_events(view: View) -> dict[str, Any]:
    """What happens to the events of its source."""
    source = view.source
    return {
        "decode": {
            "source": source.name,
            "topic": ", ".join(source.topic_texts),
            "decoder": decoder_name(source.decoder),
            "fingerprint": decoder_fingerprint(source),
            "event": source.event.__name__,
            "event_time": source.event_time,
            "start": start_document(source.start),
            "keep_s": None if source.keep is None else source.keep.total_seconds(),
        },
        "unique": {"by": identity_columns(source), "dedup_window_s": source.dedup_window.total_seconds()}
        if source.identity
        else None,
        "label": {
            "lateness_s": source.lateness.total_seconds(),
            "idle_s": source.idle.total_seconds(),
            "clock_skew_s": source.clock_skew.total_seconds(),
        },
        "prepare": source.prepare and source.prepare.__name__,
    }


def _of_states(view: View) -> dict[str, Any]:
    """What is made of them; of a view over several sources, too."""
    bound = bind(view)
    placement = bound.placement
    return {
        **({"lookup": {each.name: each.lookup.text for each in bound.lookups}} if bound.lookups else {}),
        "where": view.where,
        "keys": {name: {"expression": key.text, "type": str(key.type.arrow)} for name, key in bound.keys},
        "window": {
            "window": str(view.window),
            "states": _types(placement.columns.states),
            **({"from": begins} if (begins := starts(view)) else {}),
            "slice_s": None if placement.timing.slice is None else placement.timing.slice.total_seconds(),
            "reads": list(placement.events.reads),
            "looked_up_by_time": placement.independent,
            "keep_s": None if view.keep is None else view.keep.total_seconds(),
        },
        "measures": {one.name: _measure(view, one) for one in bound.measures if one.derived is None},
        "derived": {
            one.name: {"expression": one.derived.text, "reads": list(one.reads)} for one in bound.measures if one.derived
        },
        "merge": {"meet": shared_columns(view), "grouped_by": _grouped(view, placement.steps.merge.groups)},
        "settle": None if placement.steps.settle is None else _grouped(view, placement.steps.settle.groups),
        "arrange": None if placement.steps.arrange is None else _grouped(view, placement.steps.arrange.groups),
        "present": _types(answer_schema(view)),
    }


def _measure(view: View, one: BoundMeasure) -> dict[str, Any]:
    written = view.measures[one.name]
    inner = bare(written)
    fields = sorted(frozenset[str]().union(*(expression.fields for expression in one.inputs)))
    known = hasattr(inner, "facts")
    return {
        "measure": str(written),
        "reads": fields,
        "states": {name: str(state.type) for name, state in one.states},
        "bytes": size(one.aggregate, facts_of(inner, one.aggregate)) if known else None,
        "answer": said(one.aggregate.approximate),
    }


def _grouped(view: View, groups: Mapping[str, str]) -> list[str]:
    """The names of the columns by which rows are grouped; a window's internal columns have names that begin with _."""
    return [*view.keys, *(name.removeprefix("_") for name in groups)]


def _types(fields: Sequence[pa.Field] | pa.Schema) -> dict[str, str]:
    return {field.name: str(field.type) for field in fields}


def _batch(live: _Live) -> dict[str, Any]:
    """The input of a recompute now, and its split into tasks if Spark used each processor of this machine."""
    tables, source = live.tables, live.view.source
    decoder = Releases(tables).load(live.publication.release).sources[source.name]
    events, at_once = tables.events(source.name, decoder), os.cpu_count() or 1
    handle = delta_tables.open_table(tables, events)
    files = [] if handle is None else file_ranges(handle, EVENTS)
    ledger = ArchiveLedger(tables, source.name)
    covered = ranges(LOG_START, ledger.end(decoder), ledger.firsts())
    parts = slices(files, covered, parallelism=at_once, task_mb=live.settings.batch.task_mb)
    return {
        "version": live.batch.version,
        "cut": live.publication.cut(source.name).to_json(),
        "table": events,
        "files": [{"path": file.path, "rows": file.rows, "bytes": file.size} for file in files],
        "columns": sorted(columns(live.view)),
        "scanned_columns": sorted({"_append_time"}.union(*map(columns, live.together))),
        "scans": 2 if source.identity else 1,
        "together_with": live.others,
        "at_once": at_once,
        "slices": [part.rows for part in parts],
        "buckets": buckets(
            sum(part.rows for part in parts), in_log_order=any(map(in_log_order, live.together)), parallelism=at_once
        ),
        "writes": live.batch.address(tables, live.view.name),
    }


def _speed(live: _Live) -> dict[str, Any]:
    return {
        "together_with": live.others,
        "partitions": len(live.tail.end.offsets),
        "trigger_ms": live.settings.speed.trigger_ms,
        "max_events": live.settings.speed.max_events,
        "writes": live.tables.realtime(live.publication.release, live.view.source.name),
    }


def _serving(live: _Live) -> dict[str, Any]:
    name, batch, tail = live.batch.fingerprint, live.batch, live.tail
    address = batch.address(live.tables, live.view.name)
    files = [file for part in batch.parts for file in files_of(live.tables, address, part)[1]]
    cache = ReadCache((live.settings.serving.memory_mb << 20) // SHARE_OF_READS)
    partials = [from_ipc(commit.partials[name]) for commit in tail.commits if name in commit.partials]
    return {
        "files": [{"path": file.path, "bytes": file.size} for file in files],
        "rows": batch.rows,
        "held": cache.has_room_for(sum(file.size for file in files)),
        "columns": state_schema(live.view).names,
        "tail": {
            "commits": len(tail.commits),
            "offsets": distance(tail.cut, tail.end),
            "rows": sum(partial.num_rows for partial in partials),
            "bytes": sum(partial.nbytes for partial in partials),
        },
        "problem": tail.problem,
        "exactness": live.exactness.to_json(),
    }


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    """The document for a person."""
    yield from _whence(document)
    yield "\nlogical"
    yield from _indent(_steps(document["logical"]))
    if document["publication"] is None:
        yield "\nnothing is published yet; `tandem up` or `tandem recompute` publishes"
        return
    for layer, sentences in (("batch", _of_batch), ("speed", _of_speed), ("serving", _of_serving)):
        yield f"\n{layer}"
        yield from (f"  {sentence}" for sentence in sentences(document[layer]))


def _indent(steps: Iterator[tuple[str, str]]) -> Iterator[str]:
    return (f"  {step:<10} {text}" for step, text in steps)


def _whence(document: Mapping[str, Any]) -> Iterator[str]:
    """Which view it is, and what it is made of."""
    stands = f"release {document['release']}" if document["release"] else "the project folder"
    yield f"view {document['view']}, fingerprint {document['fingerprint']}, as defined by {stands}"
    if "rollup_of" in document:
        parent, first = document["rollup_of"][0], document["rollup_of"][-1]
        yield f"a rollup of {parent}: it reads no event and stores no state; it unites the states of {first} for each answer,"
        yield f"so it stands where {first} does, and what follows of batch, speed and serving is of {first}"
    if "table_of" in document:
        of = document["table_of"]
        yield f"a table: it reads no event and stores no state; it takes the latest state of each key of {of} for each answer,"
        yield f"so it stands where {of} does, and what follows of batch, speed and serving is of {of}"
    if "rows_of" in document:
        of = document["rows_of"]
        yield f"a view of the rows that table {of} has: it reads no event and stores no state; each answer folds these rows,"
        yield f"so it stands where {of} does, and what follows of batch, speed and serving is of the table's versions"


def _steps(logical: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    window = logical["window"]
    if "decode" in logical:
        yield from _steps_of_events(logical)
    yield from (("lookup", f"{name}: {text}") for name, text in logical.get("lookup", {}).items())
    yield "where", logical["where"] or "every event"
    yield from (("key", f"{name}: {key['type']} = {key['expression']}") for name, key in logical["keys"].items())
    slices_ = "" if window["slice_s"] is None else f"; slices of {window['slice_s']:g} s"
    dated = f"; another definition from {', then from '.join(window['from'])} on" if "from" in window else ""
    yield "window", f"{window['window']}: {', '.join(window['states'])}{slices_}{dated}"
    if window["keep_s"] is not None:
        yield "keep", f"windows leave {span(timedelta(seconds=window['keep_s']))} before the greatest event time below the cut"
    for name, measure in logical["measures"].items():
        states = ", ".join(f"{column} {type_}" for column, type_ in measure["states"].items())
        yield "measure", f"{name} = {measure['measure']}: {measure['answer']}"
        yield "", f"  states {states}; bytes: {measure['bytes'] or 'unknown'}"
    yield from (("derived", f"{name} = {one['expression']}") for name, one in logical["derived"].items())
    yield "merge", f"states of equal {', '.join(logical['merge']['grouped_by']) or 'view'} merge into one"
    if logical["settle"]:
        yield "settle", f"batch, for all events below the cut: one row per {', '.join(logical['settle'])}"
    yield "arrange", f"one row per {', '.join(logical['arrange'])}" if logical["arrange"] else "one row per state"
    yield "present", ", ".join(logical["present"])


def _steps_of_events(logical: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    decode, unique = logical["decode"], logical["unique"]
    yield "decode", f"{decode['decoder']}: records of topic {decode['topic']} to {decode['event']}, time {decode['event_time']}"
    if decode["start"]:
        yield "", start_sentence(decode["start"])
    if decode["keep_s"] is not None:
        yield "", f"records stay {span(timedelta(seconds=decode['keep_s']))}, and as long as a view needs them"
    by = None if unique is None else ", ".join(unique["by"])
    yield (
        "unique",
        f"one event per {by}; speed drops duplicates within {unique['dedup_window_s']:g} s" if by else "every record counts",
    )
    label = logical["label"]
    yield "label", f"late: {label['lateness_s']:g} s behind its partition; ahead: {label['clock_skew_s']:g} s after its record"
    yield "", f"a partition is idle {label['idle_s']:g} s behind the newest"
    if logical["prepare"]:
        yield "prepare", f"{logical['prepare']}: any number of rows from each event"


def _of_batch(batch: Mapping[str, Any]) -> Iterator[str]:
    files, others = batch["files"], batch["together_with"]
    yield (
        f"version {batch['version']} is live" if batch["version"] else "no batch version yet; the cut is at the start of the log"
    )
    if not files:
        yield f"nothing is archived yet in {batch['table']}"
        return
    yield f"a recompute reads {batch['table']}"
    yield f"  rows {_sum(files, 'rows')}, files {len(files)}, bytes {_sum(files, 'bytes')}"
    yield f"  columns {', '.join(batch['columns'])}"
    yield f"  in a scan of {', '.join(batch['scanned_columns'])}, shared with {', '.join(others) or 'no other view'}"
    yield "  after a scan that finds duplicates" if batch["scans"] > 1 else "  in one scan only"
    yield f"tasks {len(batch['slices'])} to fold, {batch['buckets']} to merge, if {batch['at_once']} run at a time"
    yield f"writes {batch['writes']}"


def _of_speed(speed: Mapping[str, Any]) -> Iterator[str]:
    yield f"one Spark job per trigger, shared with {', '.join(speed['together_with']) or 'no other view'}"
    yield "  and a second one if a duplicate is in another task or was counted before"
    apart, most = speed["trigger_ms"], speed["max_events"]
    yield f"partitions {speed['partitions']}; triggers of at most {most} events, {apart} ms apart or more"
    yield f"one commit per trigger to {speed['writes']}"


def _of_serving(serving: Mapping[str, Any]) -> Iterator[str]:
    files, tail = serving["files"], serving["tail"]
    kept = "read once and cached" if serving["held"] else "a look-up reads one row group"
    rows = "unknown" if serving["rows"] is None else serving["rows"]
    yield f"batch version: rows {rows}, files {len(files)}, bytes {_sum(files, 'bytes')}, {kept}"
    yield f"tail: {', '.join(f'{what} {number}' for what, number in tail.items())}, merged and cached"
    yield f"columns {', '.join(serving['columns'])}"
    reasons = [*serving["exactness"]["every"], *serving["exactness"]["marked"]]
    yield f"rows {'; '.join(one['says'] for one in reasons) or 'exact'}"
    if serving["exactness"]["marked"]:
        yield "  rows without an event above the cut are exact"
    if serving["problem"]:
        yield f"cannot answer: {serving['problem']}"


def _sum(files: Sequence[Mapping[str, Any]], what: str) -> int:
    return sum(file[what] for file in files)
