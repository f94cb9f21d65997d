"""`tandem adopt`: make the rows of a table the history of a source."""

from collections.abc import Iterator
from dataclasses import asdict
from typing import Annotated, Any

import typer

from tandem.batch.adopt import adopt
from tandem.batch.adopt.plan_adoption import AdoptPlan, plan
from tandem.cli.command.batch_run import batch_run
from tandem.cli.command.call import Call, Output
from tandem.cli.command.options import time_with_zone
from tandem.cli.command.published_definitions import definitions
from tandem.cli.command.published_definitions import source as source_of
from tandem.ledger.delta.addresses import Tables
from tandem.views.counted import counted
from tandem.views.errors import TandemError


def run(
    call: Call,
    *,
    source: Annotated[str, typer.Argument(help="The source whose history the table has.")],
    from_: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="TABLE",
            help="A folder of Parquet, CSV or JSON files or of a Delta table, or postgresql://HOST/DATABASE?table=NAME.",
        ),
    ],
    map_: Annotated[
        list[str] | None,
        typer.Option("--map", metavar="FIELD=EXPRESSION", help="SQL of Spark for a field of the event type; may be repeated."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Refuse unless the source declares history_until at this time.")
    ] = None,
    coordinates: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC,PARTITION,OFFSET", help="The table's columns, or SQL of Spark, with each row's place in Kafka."
        ),
    ] = None,
    plan_: Annotated[
        bool, typer.Option("--plan", help="Print what would be added, and both sides of the seam by day; write nothing.")
    ] = False,
) -> Output:
    """Add the rows of TABLE to the archive of SOURCE, before all records of its topics in the order of the log.

    Run it before `tandem up` and `tandem archive`. A field of the event type is read from the column of its name, or from
    --map. Each row becomes a JSON object with these fields; a header names its file and the version of the table.

    An event that both the table and the log have counts once: with --coordinates by the offsets that the source declares as
    start, else by the time that it declares as history_until, else by its identity. The command refuses a source without any
    of these. A later run adds the new files of the table, and
    refuses a table that changed files that were adopted. After a crash, run it again.

    A table of PostgreSQL is read by one query. An address with a login is in a variable of the environment:
    `--from '$VARIABLE?table=NAME'`. It has no versions, so a later run adds nothing, and refuses a table with other rows.

    `--plan` decodes the first 10 000 rows. Of the days around the seam it compares up to 1 000 000 rows by identity with each
    other and with the events that are archived.

    Then `tandem archive` decodes the rows. The broker is not needed.
    """
    expressions, places = _expressions(map_ or ()), coordinates_of(coordinates)
    settings = call.settings()
    chosen = source_of(definitions(call, Tables.of(settings)), source)
    time = None if until is None else time_with_zone("--until", until)
    request = adopt.AdoptRequest(from_, expressions, time, places)
    if plan_:
        with batch_run(call, "adopt") as batch:
            planned = plan(batch, chosen, request)
        return Output(_document(chosen.name, planned), "\n".join(plan_lines(chosen.name, planned)))
    with batch_run(call, "adopt", copies=True) as batch:
        done = adopt.run(batch, chosen, request)
    document = {"source": source, "version": done.version, "files": done.files, "rows": done.rows, "seam": done.seam}
    return Output(document, adoption_sentence(source, done))


def adoption_sentence(source: str, done: adopt.AdoptResult) -> str:
    """What an adoption added."""
    version = f" of version {done.version}" if done.version else ""
    return f"{source}: {counted(done.rows, 'row')}{version} adopted from {counted(done.files, 'file')}; {done.seam}"


def _document(source: str, planned: AdoptPlan) -> dict[str, Any]:
    return {
        "source": source,
        "version": planned.version,
        "files": planned.files,
        "rows": planned.rows,
        "seam": planned.seam,
        "days": [{**asdict(side), "day": side.day.isoformat()} for side in planned.days],
        "log": planned.log,
        "others": planned.others,
        "sampled": planned.sampled,
        "rejects": dict(planned.rejects),
        "compared": planned.compared,
        "refusal": planned.refusal,
        "read_bytes": planned.read,
        "written_bytes": planned.written,
    }


def plan_lines(source: str, planned: AdoptPlan) -> Iterator[str]:
    """The plan of an adoption as text."""
    version = f" of version {planned.version}" if planned.version else ""
    yield f"{source}: {counted(planned.files, 'new file')}{version} with {counted(planned.rows, 'row')}"
    if planned.files:
        yield f"cost: {counted(planned.read, 'byte')} to read, about {planned.written} to write as records before compression"
    yield f"seam: {planned.seam}"
    compared = any(side.twice is not None for side in planned.days)
    names = ["table", "log", *(["twice", "both"] if compared else [])]
    if planned.days:
        yield f"{'day':<10}" + "".join(f"  {name:>12}" for name in names)
    for side in planned.days:
        numbers = (getattr(side, name) for name in names)
        yield f"{side.day.isoformat():<10}" + "".join(f"  {'-' if number is None else number:>12}" for number in numbers)
    yield "log: no event is archived yet" if planned.log is None else f"log: {counted(planned.log, 'archived event')}"
    if planned.others:
        yield f"{counted(planned.others, 'row')} of the table would not count, for they are on the log's side of the seam"
    if planned.sampled:
        reasons = ", ".join(f"{reason} {number}" for reason, number in sorted(planned.rejects.items()))
        rejects = f"{counted(sum(planned.rejects.values()), 'reject')} ({reasons})" if reasons else "no reject"
        yield f"of the first {counted(planned.sampled, 'row')}: {rejects}"
    if compared:
        yield f"{counted(planned.compared, 'event')} compared by identity: twice in the table, and both there and in the log"
    if planned.refusal is not None:
        yield f"`tandem adopt` would refuse: {planned.refusal}"
    yield "nothing was written"


def coordinates_of(text: str | None) -> tuple[str, str, str] | None:
    """The three expressions of --coordinates. Raises TandemError."""
    if text is None:
        return None
    match [part.strip() for part in _parts(text)]:
        case [topic, partition, offset] if topic and partition and offset:
            return topic, partition, offset
    raise TandemError(
        f"invalid --coordinates {text!r}; expected three columns, such as topic,partition,offset", code="usage-invalid"
    )


def _parts(text: str) -> list[str]:
    """The text cut at its commas outside parentheses and quotes."""
    depth, quote, parts = 0, "", [""]
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"`":
            quote = character
        else:
            depth += (character == "(") - (character == ")")
        if character == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _expressions(texts: list[str] | tuple[str, ...]) -> dict[str, str]:
    expressions = dict[str, str]()
    for text in texts:
        name, separator, expression = text.partition("=")
        if not separator or not name or not expression.strip():
            raise TandemError(
                f"invalid --map {text!r}; expected FIELD=EXPRESSION, such as price=amount/100", code="usage-invalid"
            )
        if name in expressions:
            raise TandemError(
                f"--map gives field {name!r} two expressions: {expressions[name]!r} and {expression!r}; keep one",
                code="usage-invalid",
            )
        expressions[name] = expression
    return expressions
