"""An example's generator keeps its promises: reproducible, shaped as documented, its expected answers equal the kernel's."""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from examples.traffic import BURST_EVERY, BURST_FROM, BURST_LENGTH, DAY, MINUTE, SECOND, event_times, zipf
from examples.truth import place_of
from tandem.cli.log.generate import empty_truth
from tandem.cli.log.generate import load as load_generator_anew
from tandem.cli.log.generate import samples as samples_of
from tandem.views import oracle
from tandem.views.composite.table import looked_up
from tandem.views.decode import decode
from tandem.views.kernel.kernel import Partial, deduplicate, merge, partial, partial_of, prepare, present
from tandem.views.kernel.kernel import versions as kernel_versions
from tandem.views.kernel.rows import to_rows
from tandem.views.project.project import Project, load
from tandem.views.source.offset_ranges import EMPTY
from tandem.views.source.source import RECORDS_SCHEMA, Source
from tandem.views.source.united_source import sources_of
from tandem.views.view import View, approximations

EXAMPLES = Path(__file__).parents[2] / "examples"
BASE = datetime(2026, 11, 1, 8, tzinfo=UTC)
TOPIC, PARTITIONS = "t", 3

pytestmark = pytest.mark.parametrize("name", ["web", "demo", "access_log", "cards", "clicks", "sensors", "orders", "words"])


def generator(name: str) -> Any:
    return import_module(f"examples.{name}.generator")


load_generator = cache(load_generator_anew)


def generated(name: str, number: int, seed: int = 5, *, duplicates: float = 0.0) -> dict[str, list[Any]]:
    """The first samples of a seed by their source, each as key, value and facts."""
    samples = samples_of(load_generator(EXAMPLES / name), seed, number, BASE, duplicates)
    found: dict[str, list[Any]] = {source: [] for source in load(EXAMPLES / name).sources}
    for *sample, source in samples:
        found[source].append(sample)
    return found


def breaks_of(name: str) -> dict[str, Any]:
    """The breaks of each source; a generator of several has them by source."""
    breaks, sources = generator(name).BREAKS, load(EXAMPLES / name).sources
    return breaks if isinstance(breaks, dict) else dict.fromkeys(sources, breaks)


def records(samples: list[tuple[bytes | None, bytes]]) -> pa.Table:
    """Keys and values as the log would hold them, those of one key in one partition, in this order."""
    ends = Counter[int]()
    rows = []
    for key, value in samples:
        partition = place_of(key or b"", TOPIC, PARTITIONS).partition
        rows.append((TOPIC, partition, ends[partition], BASE, 0, key, value, []))
        ends[partition] += 1
    columns = map(list, zip(*rows, strict=True))
    return pa.table(dict(zip(RECORDS_SCHEMA.names, columns, strict=True)), schema=RECORDS_SCHEMA)


def folds(
    source: Source, views: Iterable[View], samples: list[Any], versions: Mapping[str, pa.Table] | None = None
) -> tuple[dict[str, Partial], Counter[str]]:
    """What views read of a source's samples, given as keys and values, and how many of these were refused, by reason.

    They look up in the `versions` of tables.
    """
    samples = [(key, value) for key, value, *_ in samples]
    decoded = decode(source, records(samples))
    events = prepare(source, deduplicate(source, decoded.events).events).events
    return (
        {
            view.name: partial_of(view, events, EMPTY, source=source, versions=versions or {})
            for view in views
            if source in sources_of(view.source)
        },
        Counter(decoded.rejects.column("reason").to_pylist()),
    )


def versions_of(project: Project, folded: Mapping[str, Partial]) -> dict[str, pa.Table]:
    """What views look up in, of a source's partials."""
    tables = {name for view in project.views.values() for name in looked_up(view)}
    return {name: kernel_versions(project.views[name], fold.states) for name, fold in folded.items() if name in tables}


def keyed(rows: list[dict[str, Any]], measures: set[str]) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {
        tuple(sorted((k, str(v)) for k, v in row.items() if k not in measures)): {k: v for k, v in row.items() if k in measures}
        for row in rows
    }


def test_more_samples_start_with_the_same_ones(name: str) -> None:
    generate = generator(name).generate
    for duplicates in (0.0, 0.05):
        few = list(generate(3, 700, base=BASE, duplicates=duplicates))
        many = generate(3, 6_000, base=BASE, duplicates=duplicates)
        assert few == list(islice(many, 700))
    assert few != list(generate(4, 700, base=BASE, duplicates=0.05))


def test_malformed_samples_are_few_of_many_kinds_and_all_refused(name: str) -> None:
    samples, breaks = generated(name, 12_000), breaks_of(name)
    malformed = [value for each in samples.values() for _, value, facts in each if facts is None]
    assert 0.001 < len(malformed) / sum(map(len, samples.values())) < 0.003
    assert sum(map(len, breaks.values())) >= 10
    for of, source in load(EXAMPLES / name).sources.items():
        good = next(value for _, value, facts in samples[of] if facts)
        broken = [brk(good) for brk in breaks[of]]
        assert len({*broken} - {good}) == len(broken), "a break breaks nothing"
        _, rejects = folds(source, (), [(None, value) for value in broken])
        assert sum(rejects.values()) == len(broken), of


@pytest.mark.parametrize("duplicates", [0.0, 0.05])
def test_the_expected_answers_equal_the_kernels(name: str, duplicates: float) -> None:
    project, samples = load(EXAMPLES / name), generated(name, 8_000, duplicates=duplicates)
    truth = empty_truth(load_generator(EXAMPLES / name), [(TOPIC, PARTITIONS)] * len(samples))
    for each in samples.values():
        for _, _, facts in each:
            if facts is not None:
                truth.add(facts)
    views = project.every_view
    folded: dict[str, list[Partial]] = {name: [] for name in views}
    versions: dict[str, pa.Table] = {}
    for of, source in project.sources.items():  # the tables' come first
        of_source, rejects = folds(source, views.values(), samples[of], versions)
        versions |= versions_of(project, of_source)
        assert sum(rejects.values()) == sum(facts is None for _, _, facts in samples[of])
        for view, fold in of_source.items():
            folded[view].append(fold)
    manifest = truth.manifest()
    assert set(manifest) == set(views), "every view has a truth"
    for view, rows in manifest.items():
        left_out = {"window_state", *approximations(views[view])}
        exact = views[view].measures.keys() - left_out
        assert rows, view
        answered = to_rows(views[view], present(views[view], merge(views[view], folded[view])))
        shown = [{k: v for k, v in row.items() if k not in left_out} for row in answered]
        assert keyed(shown, exact) == keyed(rows, exact), view


def test_the_plain_oracle_equals_the_kernel(name: str) -> None:
    project, versions = load(EXAMPLES / name), dict[str, pa.Table]()
    for of, samples in generated(name, 1_200, duplicates=0.05).items():
        source = project.sources[of]
        decoded = decode(source, records([(key, value) for key, value, _ in samples])).events
        first = oracle.first_places(source, [decoded], ()) if source.identity else {}
        counted = oracle.counted(source, decoded, first, ())
        assert counted == deduplicate(source, decoded).events
        events = prepare(source, counted).events
        tables = [each for each in project.views.values() if each.source == source and not looked_up(each)]
        versions |= versions_of(project, {each.name: partial(each, events, EMPTY) for each in tables})
        for view in (view for view in project.views.values() if view.source == source):
            parts = [
                partial(view, events.slice(start, 400), EMPTY, versions=versions) for start in range(0, events.num_rows, 400)
            ]
            groups, _ = oracle.grouped(view, events, versions)
            found = oracle.compare(view, present(view, merge(view, parts)), groups)
            assert {one.measure for one in found} == view.measures.keys() - set(oracle.left_out(view))
            assert {(one.rows, one.differ) for one in found} == {(len(groups), 0)}, view.name


def test_event_times_are_late_as_documented_and_have_bursts(name: str) -> None:
    del name
    count = 20_000
    times = list(islice(event_times(Random(1), 0, 20.0), count))
    newest = 0
    late: Counter[str] = Counter()
    for position, when in enumerate(times):
        if BURST_FROM <= position % BURST_EVERY < BURST_FROM + BURST_LENGTH:
            assert when < newest - DAY // 2
            late["burst"] += 1
        elif newest - when >= MINUTE - SECOND:
            late["hours"] += 1
        elif newest - when >= SECOND // 2:
            late["seconds"] += 1
        newest = max(newest, when)
    assert late["burst"] / count == 0.02
    assert 0.007 < late["hours"] / count < 0.013
    assert 0.08 < late["seconds"] / count < 0.1


def test_keys_are_zipf_distributed(name: str) -> None:
    del name
    drawn = Counter(islice(zipf(Random(1), range(100), 1.0), 50_000))
    assert 1.8 < drawn[0] / drawn[1] < 2.2
    assert 8 < drawn[0] / drawn[9] < 12
