"""`tandem forget`: erase records from archive, views and all files, and prove it."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tandem.batch.erase import erase, find_records
from tandem.batch.erase.erase import ErasurePlan, ErasureResult
from tandem.batch.erase.find_records import NotForgotten, RecordSelection
from tandem.batch.erase.prove import ErasureProof, prove
from tandem.batch.erase.searched_texts import SearchedTexts
from tandem.cli.command.batch_run import batch_run
from tandem.cli.command.call import UNHEALTHY, Call, Output
from tandem.cli.command.published_definitions import definitions
from tandem.cli.command.published_definitions import source as source_of
from tandem.infra import kafka
from tandem.infra.kafka import broker
from tandem.infra.kafka.source_topics import topics_of
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.archive_runs import ArchiveLedger
from tandem.ledger.log.erasures import Erasures
from tandem.ledger.log.retention import Retention
from tandem.ledger.publish.standing import StandingReleases
from tandem.serving.sinks.erasure import erase_stored_rows
from tandem.views.counted import counted
from tandem.views.errors import TandemError
from tandem.views.source.source import Source


def run(
    call: Call,
    *,
    source: Annotated[str, typer.Argument(help="The source whose records are erased.")],
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="Records with an event for which this SQL condition over its fields holds."),
    ] = None,
    ids: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A line for each identity of events, or TOPIC_ID/PARTITION:OFFSET of a record."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Erase them. Without it the command only prints what would go.")] = False,
    finish: Annotated[bool, typer.Option("--finish", help="Finish an interrupted erasure, and select no records.")] = False,
    proof: Annotated[
        str | None, typer.Option("--prove", metavar="ERASURE", help="Count and search what is left of an erasure.")
    ] = None,
) -> Output:
    """Erase records of SOURCE that `--where` or `--ids` selects: from archive, events, quarantine, views and all their files.

    * Without `--yes` it prints what would go, and changes nothing.
    * A record goes whole: its other events go with it. The output counts them as `others`.
    * The positions stay and are counted as erased, so that answers stay exact. Neither condition nor ids are stored.
    * One publication counts without the records. Earlier publications and standing releases are retired, and their files deleted.
    * What alerts and sinks have stored of the views becomes what the views answer without the records, as docs/erase.md says.
    * The topic keeps its records until its retention deletes them; folders that `tandem export` wrote keep them, too.
    * A line of `--ids` is a position if the archive has it, else an identity; if it can be both, the command refuses it.
    * If the command is interrupted, run it again, or with `--finish`: it first finishes every erasure of SOURCE.

    `--prove ERASURE` counts what the tables have at the erased positions, and searches all files for the texts in `--where` or
    the lines of `--ids`: as bytes, and in the decoded pages of Parquet files. It exits with 3 if anything is left. A text can be
    searched if the condition compares a field with it by `=` or IN; of a LIKE pattern the longest fixed part is searched.
    """
    tables = Tables.of(call.settings())
    if (where is None) == (ids is None) and not (finish or (proof and where is None)):
        raise TandemError("name the records with either --where or --ids", code="usage-invalid")
    if proof is not None and yes:
        raise TandemError("--prove erases nothing: it cannot be combined with --yes", code="usage-invalid")
    if finish and (where is not None or ids is not None or proof is not None):
        raise TandemError(
            "--finish selects no records: it cannot be combined with --where, --ids or --prove", code="usage-invalid"
        )

    def select(chosen: Source) -> RecordSelection:
        return find_records.where(chosen, where) if where is not None else find_records.of_ids(chosen, _lines_of(ids or Path()))

    if proof is not None:
        return _prove(call, tables, source, proof, None if where is None and ids is None else select)
    if not yes:
        return _plan(call, tables, source, None if finish else select)
    stored = partial(erase_stored_rows, tables, alerts=call.definitions().alerts)
    with batch_run(call, "forget") as batch:
        done = erase.run(batch, source, None if finish else select, stored=stored)
    document = {"source": source, "erased": [_result(step) for step in done]}
    lines = [
        f"erasure {step.erasure.name}: {counted(step.erasure.ranges.length, 'record')} erased, "
        f"{counted(step.freed.files, 'file')} deleted; publication {step.publication.number} is live; "
        f"`tandem forget {source} --prove {step.erasure.name}` proves it"
        for step in done
    ]
    return Output(document, "\n".join(lines or [f"no record of {source} matches; nothing was changed"]))


def _lines_of(file: Path) -> list[str]:
    """The lines of a file that are not empty, without spaces around them. Raises NotForgotten."""
    try:
        return [line.strip() for line in file.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise NotForgotten(f"cannot read --ids {file}: {error}") from error


def _plan(call: Call, tables: Tables, source: str, select: Callable[[Source], RecordSelection] | None) -> Output:
    unfinished = [erasure.name for erasure in Erasures(tables).to_finish(source)]
    left = [f"unfinished: {', '.join(unfinished)}; `--yes` finishes {'it' if len(unfinished) == 1 else 'them'} first"]
    if select is None:
        return Output({"source": source, "unfinished": unfinished}, left[0] if unfinished else "no erasure is unfinished")
    planned = erase.plan(call.settings(), tables, StandingReleases(tables), source, select)
    topics = _topics(call, planned)
    document = {**_plan_document(planned), "unfinished": unfinished, "topics": topics}
    return Output(document, "\n".join([*_lines(planned, tables, topics), *(left if unfinished else [])]))


def _plan_document(planned: ErasurePlan) -> dict[str, Any]:
    return {
        "source": planned.source.name,
        "records": planned.records.ranges.length,
        "positions": planned.records.ranges.to_json(),
        "events": planned.records.events,
        "others": planned.records.others,
        "rows": dict(planned.rows),
        "views": list(planned.views),
        "publications": list(planned.publications),
        "releases": list(planned.releases),
        "sources": list(planned.sources),
    }


def _result(step: ErasureResult) -> dict[str, Any]:
    return {
        "erasure": step.erasure.name,
        "records": step.erasure.ranges.length,
        "publication": step.publication.number,
        "files": step.freed.files,
        "bytes": step.freed.bytes,
        "others": None if step.planned is None else step.planned.records.others,
    }


def _lines(planned: ErasurePlan, tables: Tables, topics: dict[str, str]) -> list[str]:
    records, name = planned.records, planned.source.name
    start = f"records before the start of {name} have no event to select; a line of --ids selects them by position"
    early = [] if planned.source.start is None else [start]
    if not records.ranges.length:
        return [f"no record of {name} matches", *early]
    names = ArchiveLedger(tables, name).topic_names()
    partitions = (
        f"  {names.get(topic, topic)}/{number}: {counted(_length(intervals), 'record')}"
        for (topic, number), intervals in records.ranges.intervals
    )
    others = f"; {counted(records.others, 'other event')} of the same records would go, too" if records.others else ""
    lines = [
        f"{counted(records.ranges.length, 'record')} of {name} with {counted(records.events, 'selected event')} would go{others}",
        *partitions,
        *(f"  {table}: {counted(rows, 'row')}" for table, rows in planned.rows.items()),
        f"views to fold again: {', '.join(planned.views) or 'none'}",
        f"publications to retire: {', '.join(map(str, planned.publications)) or 'none'}",
        f"standing releases to retire: {', '.join(map(str, planned.releases)) or 'none'}",
        *(f"topic {topic}: {sentence}" for topic, sentence in topics.items()),
        "exports are not recorded: delete folders that `tandem export` wrote",
    ]
    if planned.sources:
        lines.append(f"archived for other sources, too: {', '.join(planned.sources)}; forget the records there as well")
    return [*lines, *early, "nothing was changed; `--yes` erases"]


def _length(intervals: tuple[tuple[int, int], ...]) -> int:
    return sum(end - start for start, end in intervals)


def _topics(call: Call, planned: ErasurePlan) -> dict[str, str]:
    """By topic name, what the topic still has of the records, and until when."""
    ranges = planned.records.ranges
    if not ranges.length:
        return {}
    try:
        address = broker.address(call.settings())
        connection = kafka.connect(address)
        topics = topics_of(connection, planned.source)
        starts = kafka.starts(connection, topics)
        configurations = kafka.configurations(connection, [topic.name for topic in topics])
    except TandemError as error:
        return dict.fromkeys(planned.source.topic_texts, f"unknown how many it still has: {error}")
    sentences = {}
    for topic in topics:
        left = sum(
            max(0, end - max(start, starts[topic.id, number]))
            for (of, number), intervals in ranges.intervals
            if of == topic.id and (topic.id, number) in starts
            for start, end in intervals
        )
        kept = Retention.of(configurations[topic.name]).time
        until = "for ever" if kept is None else f"until they are older than {kept}"
        sentences[topic.name] = (
            f"still has {counted(left, 'record')} of them, {until}; `tandem forget` deletes nothing of a topic"
        )
    return sentences


def _prove(call: Call, tables: Tables, source: str, name: str, select: Callable[[Source], RecordSelection] | None) -> Output:
    chosen = source_of(definitions(call, tables), source)
    erasure = Erasures(tables).load(name)
    if erasure.source != source:
        raise TandemError(f"erasure {name} is of source {erasure.source!r}, not of {source!r}", code="usage-invalid")
    topics = ArchiveLedger(tables, source).topic_names()
    texts = SearchedTexts() if select is None else select(chosen).search_texts(topics)
    proof = prove(tables, erasure, texts.searched)
    document = {
        "erasure": name,
        "stage": erasure.stage,
        "records": erasure.ranges.length,
        "publication": erasure.publication,
        "rows": dict(proof.rows),
        "files": proof.files,
        "texts": proof.texts,
        "unsearched": list(texts.unsearched),
        "hits": dict(proof.hits),
        "proved": proof.whole,
    }
    return Output(document, "\n".join(_proof(proof, texts.unsearched)), 0 if proof.whole else UNHEALTHY)


def _proof(proof: ErasureProof, unsearched: Sequence[str]) -> list[str]:
    erasure = proof.erasure
    stage = f"erased; publication {erasure.publication}" if erasure.stage == "erased" else f"unfinished ({erasure.stage})"
    if erasure.of_keep:
        stage = f"{erasure.stage}, because the source keeps them no longer"
    texts = (
        f"{counted(proof.texts, 'text')} in {counted(proof.files, 'file')}: {counted(sum(proof.hits.values()), 'hit')}"
        if proof.texts
        else "no text was searched, so the counts alone are the proof; a text in --where, or a line of --ids, searches all files"
    )
    return [
        f"erasure {erasure.name} of {counted(erasure.ranges.length, 'record')}: {stage}",
        *(f"  {table}: {counted(rows, 'row')} at these positions" for table, rows in proof.rows.items()),
        texts,
        *(f"  {file}" for file in proof.hits),
        *(f"not searched, because selected records need not have this text: {text!r}" for text in unsearched),
    ]
