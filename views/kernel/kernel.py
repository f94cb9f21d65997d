"""The kernel: the pure functions over Arrow tables that compute every number.

    decode(source, records)          -> events, rejects      each record independently, exactly one outcome;
                                                             in a shared topic, other sources' records are counted apart
    deduplicate(source, events, known) -> events             drops duplicates by identity, before any filter
    ahead(source, events)            -> mask of events       that are ahead of their records' timestamps: a label, never a loss
    prepare(source, events)          -> rows                 any number from each event, by a function of the project
    late(source, events, maxima)     -> number of events     that arrived late: a label, never a loss
    after_final(view, events, ...)   -> number of events     that arrived in windows that were labelled final
    partial(view, events, ranges)    -> partial              events of any ranges, in any order
    merge(view, partials)            -> partial              unites ranges, refuses overlap; associative, commutative, identity
    current(view, partial)           -> partial              of a view of a table's rows: folds those rows; else the same
    present(view, partial, ...)      -> answers              means from sums, estimates from sketches, windows from slices
    roll(rollup, states)             -> states               of a rollup, from those of the view at its root
    versions(view, states)           -> versions             of a table's rows, in which `partial` looks up
    touched(view, versions, changed) -> event times          for which other versions may change what is found

No engine, no I/O, no clock. Batch, speed and serving all call these functions; nothing else computes a number of an answer.
"""

from tandem.views.decode import DecodedRecords, decode
from tandem.views.kernel.deduplicate import Deduplicated, deduplicate
from tandem.views.kernel.label_late_events import Late, after_final, late
from tandem.views.kernel.merge import merge, merge_states, settle
from tandem.views.kernel.partial import Partial, partial
from tandem.views.kernel.present import arrange, arrange_as_one, current, present, present_arranged
from tandem.views.kernel.rollup_states import partial_of, roll
from tandem.views.kernel.touched import touched
from tandem.views.kernel.versions import no_versions, versions
from tandem.views.source.prepare import Prepared, prepare
from tandem.views.source.watermark import ahead

__all__ = [
    "DecodedRecords",
    "Deduplicated",
    "Late",
    "Partial",
    "Prepared",
    "after_final",
    "ahead",
    "arrange",
    "arrange_as_one",
    "current",
    "decode",
    "deduplicate",
    "late",
    "merge",
    "merge_states",
    "no_versions",
    "partial",
    "partial_of",
    "prepare",
    "present",
    "present_arranged",
    "roll",
    "settle",
    "touched",
    "versions",
]
