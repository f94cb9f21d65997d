"""The kernel: the pure functions over Arrow tables that every number comes from.

    decode(source, records)          -> events, rejects      each record by itself, exactly one outcome
                                                             or, of a topic that sources share, counted as another's
    unique(source, events, known)    -> events               copies by identity, before any filter
    ahead(source, events)            -> which are ahead      of their records' timestamps: a label, never a loss
    prepare(source, events)          -> events               any number of rows from each, by a function of the project
    late(source, events, maxima)     -> how many came late   a label, never a loss
    after_final(view, events, ...)   -> how many came to windows that were labelled final
    partial(view, events, ranges)    -> partial              events of any ranges, in any order
    merge(view, partials)            -> partial              unites ranges, refuses overlap; associative, commutative, identity
    present(view, partial, ...)      -> answers              means from sums, estimates from sketches, windows from slices

No engine, no I/O, no clock: batch, speed and serving all call these, and nothing else computes a number that is answered.
"""

from views.decode import Decoded, decode
from views.kernel.after_final import after_final
from views.kernel.deduplicate import Unique, unique
from views.kernel.late import Late, late
from views.kernel.merge import merge, merge_states, settle
from views.kernel.partial import Partial, partial
from views.kernel.present import arrange, arrange_as_one, present, present_arranged
from views.source.ahead import ahead
from views.source.prepare import Prepared, prepare

__all__ = [
    "Decoded",
    "Late",
    "Partial",
    "Prepared",
    "Unique",
    "after_final",
    "ahead",
    "arrange",
    "arrange_as_one",
    "decode",
    "late",
    "merge",
    "merge_states",
    "partial",
    "prepare",
    "present",
    "present_arranged",
    "settle",
    "unique",
]
