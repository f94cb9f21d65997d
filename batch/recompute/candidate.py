"""The state of a release after a build: its parts, cuts and counts."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tandem.batch.recompute.build import Built, NewVersion
from tandem.batch.runtime.session import BatchRun
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.counts import NOTHING, add, plus
from tandem.ledger.log.positions import Position
from tandem.ledger.publish.batch_parts import BatchPart
from tandem.ledger.publish.labels import Labels, labels_below, repaired
from tandem.ledger.publish.publications import Publication
from tandem.views.source.watermark import Maxima
from tandem.views.source.watermark import newest as united


def candidate(batch: BatchRun, version: NewVersion, built: Sequence[Built], base: Publication) -> Publication:
    """The state after `base`, the newest state of the release: with the new parts, cuts, counts and labels."""
    cuts, views, counts = dict(base.cuts), dict(base.views), dict(base.counts)
    rejected, newest, maxima = dict(base.rejected), dict(base.newest), dict(base.maxima)
    watermarks, after_final, copies = dict(base.watermarks), dict(base.after_final), dict[str, int]()
    for one in built:
        name, done = one.done.source, one.done
        rows: Counter[str] = Counter()
        for file in one.views.files:
            rows[file.view] += file.file.rows
        for view, kept in one.kept.items():
            part = BatchPart(version.number, rows[view], done.cut, version.request.windows)
            views[view] = replace(base.views[view], parts=(*kept, part))
        extends = done.kind == "incremental"
        if done.kind != "windows":
            for view in one.kept:
                rejected[view] = add(rejected.get(view, {}) if extends else {}, one.views.rejected[view])
        if not version.request.at_published_cut or name not in counts:
            before = counts.get(name, NOTHING) if extends else NOTHING
            maxima[name] = united([maxima.get(name, {}) if extends else {}, one.views.maxima])
            labels = _labels(batch.tables, version, name, done.cut, maxima=maxima[name], base=base)
            cuts[name], counts[name] = done.cut, replace(plus(before, one.views.counts), late=labels.late)
            after_final |= labels.after_final
            if labels.watermark is not None:
                watermarks[name] = labels.watermark
            found = repaired(batch.tables, base, version.release.number, name, cut=done.cut, below=counts[name])
            copies |= {name: found} if found is not None else {}
            known = newest.get(name) if extends else None
            times = [found for found in (known, one.views.newest) if found is not None]
            newest |= {name: max(times)} if times else {}
    return replace(
        base,
        at=batch.now(),
        by=batch.by,
        kind="recompute",
        cuts=cuts,
        views=views,
        counts=counts,
        rejected=rejected,
        newest=newest,
        maxima=maxima,
        watermarks=watermarks,
        after_final=after_final,
        repaired=copies,
        gaps=tuple(dict.fromkeys((*base.gaps, *(gap.name for gap in version.gaps)))),
        why="",
    )


def _labels(tables: Tables, version: NewVersion, source: str, cut: Position, *, maxima: Maxima, base: Publication) -> Labels:
    views = [name for name, view in version.definitions.views.items() if view.source.name == source]
    return labels_below(
        tables,
        base,
        source,
        cut,
        views={name: version.release.views[name] for name in views},
        maxima=maxima,
        idle=version.definitions.sources[source].idle,
    )
