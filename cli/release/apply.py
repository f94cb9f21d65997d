"""`tandem apply`: build the project's definitions as a release beside the live one, and report how its answers differ."""

import os
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final

import typer

from tandem.batch.recompute.estimate import size
from tandem.batch.release import apply, gates
from tandem.batch.release.apply import Applied
from tandem.batch.release.release_plan import Terms
from tandem.cli.command.batch_run import batch_run
from tandem.cli.command.call import Call, Output
from tandem.cli.command.options import AcceptGap, AcceptShorterHistory
from tandem.cli.records.readable_rejects import ReadableRejects, readable_rejects
from tandem.cli.release.diff_figures import figures
from tandem.cli.release.promote import Gate, MaxLag, Why, promoted
from tandem.cli.release.start_option import From, start_of
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.publish.releases import Releases
from tandem.serving.status.releases import document_of, expectation_lines
from tandem.views.project import project

EXAMPLES: Final = 3
_NICENESS: Final = 10


def run(
    call: Call,
    *,
    from_: From = None,
    accept_gap: AcceptGap = None,
    accept_shorter_history: AcceptShorterHistory = False,
    max_lag: MaxLag = 1000,
    auto_promote: Annotated[bool, typer.Option("--auto-promote", help="Promote the release when it is ready.")] = False,
    gate: Gate = None,
    why: Why = "",
) -> Output:
    """Build the definitions in the project's folder as a new release beside the live one. Answers stay the same.

    1. Changed views are computed from the whole log; unchanged views are shared with the live release.
    2. The speed layer follows the log for both releases.
    3. All answers below the live cut are compared, and the release is ready.

    With `--from T` a changed view counts windows that begin at T or later by the new definition. Earlier windows keep the live
    one, and their states: only windows from T on are computed.

    `tandem promote` makes the release live; `tandem retire` discards it.
    """
    conditions = () if gate is None else gates.parse(gate)
    terms = Terms(tuple(accept_gap or ()), accept_shorter_history, max_lag, start_of(from_))
    # Serving and the speed layer run meanwhile and have precedence. Spark and its workers inherit this priority.
    os.nice(_NICENESS)
    with batch_run(call, "apply") as batch:
        done = apply.run(batch, call.publishable, terms, why=why)
    tables = Tables.of(call.settings())
    rejects = _readable(tables, done)
    document = _document(done) | {"rejects": {name: each.to_json() for name, each in rejects.items()}}
    text = [*lines(done), *(f"  {each.sentence(name)}" for name, each in rejects.items())]
    if done.release is not None and auto_promote:
        live = promoted(call, done.release, conditions, max_lag=max_lag, why=why)
        document |= {"promoted": True, "publication": live.number}
        text.append(f"publication {live.number}: release {live.release} is live")
    elif done.release is not None:
        if gate is not None:
            gates.refuse_shut(conditions, done.diff)
        text.append("the live release still answers; `tandem promote` makes the new release live, `tandem retire` discards it")
    return Output(document, "\n".join(text))


def _readable(tables: Tables, done: Applied) -> Mapping[str, ReadableRejects]:
    """The rejects of each source that the new release decodes differently."""
    if done.release is None:
        return {}
    releases = Releases(tables)
    after = releases.load(done.release)
    return readable_rejects(tables, releases.load(done.live.release), project.load_files(after.files), after.sources)


def _document(done: Applied) -> dict[str, Any]:
    return {
        "publication": done.live.number,
        "live_release": done.live.release,
        "release": done.release,
        "promoted": False,
        "lag": dict(done.lags),
        "bytes_written": done.written,
        "views": {} if done.diff is None else {name: dict(view) for name, view in done.diff.views.items()},
        "audits": [document_of(audit) for audit in done.expected],
    }


def lines(done: Applied) -> Iterator[str]:
    """The built release, and how its answers differ, for a person."""
    if done.release is None:
        yield f"nothing to apply: publication {done.live.number} of release {done.live.release} already has these definitions"
        return
    yield f"release {done.release} is ready; view data written: {size(done.written)}"
    for name, view in ({} if done.diff is None else done.diff.views).items():
        yield from _view(name, view, done.release)
    yield from (f"  {line}" for line in expectation_lines(done.expected))


def _view(name: str, view: Mapping[str, Any], release: int) -> Iterator[str]:
    if view["status"] != "changed":
        yield f"  view {name}: {view['status']}"
        return
    yield f"  view {name}: {figures(view, release)}"
    for measure, one in view["measures"].items():
        if one["differ"]:
            worst, mean = one["largest_of_differing"], one["mean_error_of_differing"]
            yield f"    {measure}: {one['differ']} differ, by at most {worst:g}, on average by {mean:.2%}"
            for example in one["examples"][:EXAMPLES]:
                row = " ".join(f"{key}={value}" for key, value in example["row"].items())
                yield f"      {row}: {example['old']} -> {example['new']}"
