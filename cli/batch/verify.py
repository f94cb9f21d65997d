"""`tandem verify`: replay the archive through both paths and compare batch, speed and the published answers.

It also compares the published answers of some keys with the plain oracle.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Annotated, Any, Final

import typer

from tandem.batch.runtime import scratch
from tandem.batch.runtime.session import BatchRun
from tandem.batch.verify import oracle_sample, replay_compare
from tandem.batch.verify.oracle_sample import MOST_EVENTS, Sampled
from tandem.batch.verify.replay_compare import Agreement, ReplayComparison
from tandem.cli.command.batch_run import batch_run
from tandem.cli.command.call import Call, Output
from tandem.cli.command.text_tables import aligned, cell
from tandem.ledger.log.counts import NOTHING, Counts
from tandem.ledger.log.positions import Position
from tandem.ledger.log.registry_schemas import of_source
from tandem.ledger.publish.publications import Publication, no_publication
from tandem.ledger.publish.releases import Release
from tandem.speed.source import archive_replay
from tandem.speed.source.archive_replay import ReplayedArchive
from tandem.views.composite.rollup import root
from tandem.views.composite.together import parts
from tandem.views.counted import counted
from tandem.views.errors import TandemError, listed
from tandem.views.project import project
from tandem.views.project.project import Project
from tandem.views.source.source import Source
from tandem.views.view import View

_REPLAYED: Final = "replayed"


@dataclass(frozen=True)
class _Verified:
    """One source below its cut: the counts of the three sides, and how their answers compare; `rejected` by view, then by side.

    `sampled` compares the published answers of some keys with the plain oracle.
    """

    source: str
    cut: Position
    replayed: ReplayedArchive
    agreement: Agreement
    published: Counts
    rejected: Mapping[str, Mapping[str, Mapping[str, int]]] = field(hash=False)
    sampled: tuple[Sampled, ...]

    @property
    def counted_alike(self) -> bool:
        """Whether every record had the same outcome on all three sides, and batch counts and rejects the same as published."""
        batch, speed = self.agreement.counts, self.replayed.counts
        alike = _outcomes(batch) == _outcomes(speed) == _outcomes(self.published) and batch.events == self.published.events
        # The published state may have been counted with another bound, or before the event type had a field that rounds.
        alike = alike and (batch.ahead, batch.rounded) == (speed.ahead, speed.rounded)
        return alike and all(one["batch"] == one["published"] for one in self.rejected.values())

    @property
    def layers_agree(self) -> bool:
        """Whether all differences between batch, speed and the published answers have a known cause."""
        return self.counted_alike and not any(one.figures.cause == "unexplained" for one in self.agreement.compared)

    @property
    def agrees(self) -> bool:
        """Whether the three sides agree, and the plain oracle with them."""
        return self.layers_agree and not any(one.differ for one in self.sampled)


def run(
    call: Call,
    views: Annotated[list[str] | None, typer.Argument(metavar="VIEW", help="The views to verify.")] = None,
    *,
    every: Annotated[bool, typer.Option("--all", help="Verify every view.")] = False,
    keys: Annotated[int, typer.Option(min=0, metavar="N", help="Number of keys of each view to compare with the oracle.")] = 20,
) -> Output:
    """Replay the archive below the published cut through the speed path, fold it through the batch path, and compare.

    A rollup has no states of its own: the command verifies the view whose states it unites. Of a view over several sources it
    verifies the states of each.

    The command compares both results with each other and with the published answers. For some keys it also compares the
    published answers with the oracle, which evaluates the definition event by event in plain Python. An unexplained difference
    gives exit code 1; the same difference stops a recompute. Nothing is published or kept. Recompute and maintain wait
    meanwhile; answers and the speed layer continue.
    """
    if bool(views) == every:
        raise TandemError("name the views to verify, or use --all", code="usage-invalid")
    with batch_run(call, "verify") as batch:
        live, verified = _every(batch, views, keys)
    agree = all(one.agrees for one in verified)
    document = {
        "publication": live.number,
        "release": live.release,
        "agree": agree,
        "sources": {one.source: _document(one) for one in verified},
    }
    return Output(document, "\n".join(line for one in verified for line in _lines(one)), 0 if agree else 1)


def _every(batch: BatchRun, names: list[str] | None, keys: int) -> tuple[Publication, list[_Verified]]:
    """The live publication, and each source of the named views; of all views if none is named."""
    if batch.standing.publications.latest() is None:
        raise no_publication()
    batch.hold("views")
    live = batch.standing.publications.latest()
    assert live is not None  # publications are never deleted
    release = batch.releases.load(live.release)
    definitions = project.load_files(release.files)
    verified = list(_verified(batch, live, release, definitions, _chosen(definitions, names), keys=keys))
    if not verified:
        raise TandemError("no events are below a published cut yet; run `tandem recompute` first", code="nothing-published")
    return live, verified


def _chosen(definitions: Project, names: list[str] | None) -> Mapping[str, View]:
    """The named views, all if none is named; in place of a rollup its root, which has its states, and of several sources each."""
    every = definitions.every_view
    for name in names or ():
        if name not in every:
            raise TandemError(f"no view {name!r} is published; views: {listed(name, every)}", code="view-unknown")
    wanted = {part.name for name in names or every for part in parts(root(every[name]))}
    return {name: view for name, view in definitions.views.items() if name in wanted}


def _verified(
    batch: BatchRun, live: Publication, release: Release, definitions: Project, chosen: Mapping[str, View], *, keys: int
) -> Iterator[_Verified]:
    for source in definitions.sources.values():
        views = {name: view for name, view in chosen.items() if view.source.name == source.name}
        if views and live.cut(source.name).offsets:
            scratch.clear(batch.tables)
            try:
                yield _verify(batch, live, release, source, views, keys=keys)
            finally:
                scratch.clear(batch.tables)


def _verify(
    batch: BatchRun, live: Publication, release: Release, source: Source, views: Mapping[str, View], *, keys: int
) -> _Verified:
    cut = live.cut(source.name)
    into = scratch.tables_in(batch.tables, _REPLAYED)
    batch.say(f"{source.name}: replaying the archive up to {cut} as the speed layer does")
    replayed = archive_replay.replay(
        batch.session,
        batch.tables,
        release,
        source,
        views=views,
        live=live,
        into=into,
        end=cut,
        most=batch.settings.speed.max_events,
        identities_mb=batch.settings.speed.identities_mb,
        by=batch.by,
        now=batch.now,
        schemas=of_source(source, batch.settings, batch.tables, batch.now),
    )
    batch.say(f"{source.name}: folding the archive as a recompute does, and comparing")
    agreement = replay_compare.agreement(batch, live, release, source, views, replayed=into, counted=replayed.counts)
    if keys:
        batch.say(f"{source.name}: evaluating {keys} keys of each view event by event")
    sampled = oracle_sample.sampled(batch.tables, live, release, source, views, keys=keys) if keys else ()
    rejected = {
        name: {
            "batch": dict(agreement.rejected[name]),
            "speed": dict(replayed.rejected.get(release.views[name], {})),
            "published": dict(live.rejected.get(name, {})),
        }
        for name in views
    }
    return _Verified(source.name, cut, replayed, agreement, live.counts.get(source.name, NOTHING), rejected, sampled)


def _outcomes(counts: Counts) -> tuple[object, ...]:
    """The outcomes of the records, which must be equal on every side."""
    return (
        counts.events + counts.duplicates,
        counts.further,
        dict(counts.quarantined),
        counts.rejected_events,
        counts.others,
        counts.skipped,
        counts.holes,
    )


def _document(one: _Verified) -> dict[str, Any]:
    return {
        "cut": one.cut.to_json(),
        "agree": one.agrees,
        "batches": one.replayed.batches,
        "counts": {
            "batch": one.agreement.counts.to_json(),
            "speed": one.replayed.counts.to_json(),
            "published": one.published.to_json(),
        },
        "rejected": one.rejected,
        "compared": [_compared(each) for each in one.agreement.compared],
        "sampled": [
            {
                "view": each.view,
                "keys": each.keys,
                "windows": each.windows,
                "answers": each.answers,
                "differ": each.differ,
                "too_large": list(each.too_large),
                "left_out": list(each.left_out),
                "compared": [_compared(measure) for measure in each.compared],
            }
            for each in one.sampled
        ],
    }


def _compared(one: ReplayComparison) -> dict[str, Any]:
    figures = one.figures
    first, second = one.between
    return {
        "view": one.view,
        "measure": one.measure,
        "between": list(one.between),
        **{
            name: getattr(figures, name)
            for name in ("rows", "unequal", "differ", "largest", "mean", "smape", "tolerance", "cause")
        },
        "examples": [
            {
                "row": each["row"],
                first: each["served"],
                second: each["found"],
                "only": {"served": first, "found": second}.get(each["only"]),
            }
            for each in figures.examples
        ],
    }


def _lines(one: _Verified) -> Iterator[str]:
    """The lines about a source, for people."""
    counts = one.replayed.counts
    records = counts.records + counts.whole_rejects
    yield (
        f"{one.source}: {counted(counts.events, 'event')} of {counted(records, 'record')} replayed in "
        f"{one.replayed.batches} micro-batch{'' if one.replayed.batches == 1 else 'es'}"
    )
    if not one.counted_alike:
        sides = {"batch": one.agreement.counts, "speed": counts, "published": one.published}
        told = "; ".join(f"{name} {json.dumps(side.to_json())}" for name, side in sides.items())
        yield f"{one.source}: the same records were decoded differently: {told}"
    yield from aligned(
        [
            {
                "view": each.view,
                "measure": each.measure,
                "between": " and ".join(each.between),
                "rows": each.figures.rows,
                "differ": each.figures.differ,
                "largest": each.figures.largest,
                "smape": each.figures.smape,
                "cause": each.figures.cause,
            }
            for each in chain(one.agreement.compared, *(each.compared for each in one.sampled))
            if each.figures.unequal
        ]
    )
    yield from (f"{one.source}: {line}" for each in one.sampled for line in _sampled(each))
    measures = {(each.view, each.measure): each.figures.rows for each in one.agreement.compared}
    answers = sum(measures.values())
    if not one.layers_agree:
        result = "batch, speed and the published answers DISAGREE"
    elif answers:
        result = "batch, speed and the published answers agree"
    else:
        yield f"{one.source}: nothing to compare: neither batch, speed nor the published views have an answer"
        return
    yield f"{one.source}: {result}, in {counted(answers, 'answer')} of {counted(len(measures), 'measure')}"


def _sampled(one: Sampled) -> Iterator[str]:
    if not one.answers:
        yield f"nothing of {one.view} to compare with the oracle: {_nothing(one)}"
    else:
        differ = f"{one.differ} DIFFER" if one.differ else "none differs"
        windows = f", large ones in {counted(one.windows, 'window')}" if one.windows else ""
        yield (
            f"{counted(one.keys, 'key')} of {one.view} compared with the oracle{windows}: "
            f"of {counted(one.answers, 'answer')} {differ}"
        )
    if one.too_large:
        named = "; ".join(cell(key) or "the only one" for key in one.too_large)
        yield f"keys of {one.view} with too many events for the oracle, more than {MOST_EVENTS}: {named}"
    if one.left_out:
        yield f"measures of {one.view} that the oracle cannot evaluate: {', '.join(one.left_out)}"


def _nothing(sampled: Sampled) -> str:
    """Why no answer of a view was compared."""
    if sampled.keys and sampled.left_out and not sampled.compared:
        return "it evaluates none of the measures"
    return "every drawn key has too many events" if sampled.too_large else "it has no answers"
