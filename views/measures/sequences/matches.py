"""How often a pattern of rows matches: row pattern recognition of SQL:2016 (MATCH_RECOGNIZE).

The rows are the events in the order of all events (time, generation, partition, offset, index). Matches are looked for from the
first row on; of those that begin at a row the preferred one counts, and the next begins after its last row.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Annotated, ClassVar, Final

import numpy as np
import pyarrow as pa

from tandem.views.arrow import arrays
from tandem.views.definition_text import call
from tandem.views.errors import DefinitionError, listed
from tandem.views.measures.filtered import filtered
from tandem.views.measures.measure import Aggregate, Facts, Measure
from tandem.views.measures.sequences.match_references import (
    PairConditions,
    Tracked,
    count_dependent,
    pairs_of,
    pieces,
    starts_of,
)
from tandem.views.measures.sequences.navigation import Navigated, Referred, expressions_of, navigation_of
from tandem.views.measures.sequences.row_matcher import Automaton, automaton, first_rows
from tandem.views.measures.sequences.row_pattern import row_pattern, symbols_of
from tandem.views.measures.states.distinct_set import check_limit
from tandem.views.measures.states.event_set import PLACE, PLACE_INPUTS, EventSequences, Integers, event_sequences, event_set
from tandem.views.source.source import Source
from tandem.views.source.value_types import ValueType
from tandem.views.sql.exact_numbers import values
from tandem.views.sql.exact_terms import Term

_MOST_SYMBOLS: Final = 32
_MOST_TRIES: Final = 10_000_000
"""Of ways to go on in a match, for a key and window."""


@dataclass(frozen=True)
class RowPattern:
    """A pattern as it is written, its different symbols in order, and those that have a condition."""

    text: str
    symbols: tuple[str, ...]
    defined: tuple[str, ...]


@dataclass(frozen=True)
class Matches:
    """The number of matches; null if there are more than `limit` events.

    With `by`, each of its values has its own sequence of rows; events where it is null are ignored.
    """

    facts: ClassVar = Facts(
        merge="all events of both hashed and sorted",
        inverse="no",
        source="union of sets; SQL:2016 (ISO/IEC TR 19075-5), by an automaton in two passes over the rows",
        varying="at most `limit` events, 40 for each, `by`, and what conditions read of other rows; none once there were more",
    )

    pattern: RowPattern
    define: tuple[str, ...]
    limit: int
    by: str | None

    def __post_init__(self) -> None:
        """Raises DefinitionError for symbols that do not fit, PREV or NEXT that are not possible, or an invalid limit."""
        used = set(self.pattern.symbols)
        check_limit(self.limit)
        if unused := sorted(set(self.pattern.defined) - used):
            names = listed(unused[0], self.pattern.symbols)
            raise DefinitionError(f"define has the symbol {unused[0]!r}, which is not in the pattern; its symbols: {names}")
        folded = {name.casefold(): name for name in sorted(used)}
        if different := sorted(used - set(folded.values())):
            raise DefinitionError(
                f"the symbols {different[0]!r} and {folded[different[0].casefold()]!r} differ only in case; write one of them"
            )
        if len(used) > _MOST_SYMBOLS:
            raise DefinitionError(f"a pattern has at most {_MOST_SYMBOLS} different symbols; here are {len(used)}")
        pattern, references = automaton(self.pattern.text, self.pattern.symbols), len(self.match_rows)
        tries = len(pattern.bits) * self.limit ** (1 + references)
        if references and tries > _MOST_TRIES:
            largest = int((_MOST_TRIES / len(pattern.bits)) ** (1 / (1 + references)))
            raise DefinitionError(
                f"limit {self.limit} is too large for a pattern of {len(pattern.bits)} symbols whose conditions read "
                f"{references} {'row' if references == 1 else 'rows'} of the match: at most {largest}"
            )

    def __str__(self) -> str:
        return call("matches", self.pattern.text, define=dict(self._conditions()), limit=self.limit, by=self.by)

    def _conditions(self) -> Iterator[tuple[str, str]]:
        return zip(self.pattern.defined, self.define, strict=True)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The event's time and place, `by`, conditions of the row alone, and what the others read of a row."""
        of_user = () if self.by is None else (self.by,)
        return (*PLACE_INPUTS, *of_user, *self.conditions, *expressions_of([*self.navigations.values()]))

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions that read their own row alone."""
        return tuple(self.own_rows.values())

    @property
    def own_rows(self) -> Mapping[str, str]:
        """Those, by symbol."""
        return {name: text for name, text in self._conditions() if name not in self.navigations}

    @property
    def navigations(self) -> Mapping[str, Navigated]:
        """The conditions that read other rows, by symbol."""
        symbols = self.pattern.symbols
        texts = [(name, text) for name, text in self._conditions() if isinstance(text, str)]  # The view refuses others.
        return {name: other for name, text in texts if (other := navigation_of(text, symbols)) is not None}

    @property
    def match_rows(self) -> tuple[Tracked, ...]:
        """The rows of a match that conditions read."""
        navigations = [other for other in self.navigations.values() if other.reference is not None]
        return tuple(dict.fromkeys(_match_row(other, self.pattern.symbols) for other in navigations))

    @property
    def reads_other_rows(self) -> bool:
        """Whether a condition reads other rows."""
        return bool(self.navigations)

    def bind(self, types: Sequence[ValueType]) -> Aggregate:
        """Exact: a 64-bit integer. The state is the set of all events, each with the symbols that it has as bits."""
        names, others, alone = self.pattern.symbols, self.navigations, self.own_rows
        first = len(PLACE) + (self.by is not None)
        met = [f"CASE WHEN {{{number}}} THEN {1 << names.index(name)} ELSE 0 END" for number, name in enumerate(alone, first)]
        expressions = expressions_of([*others.values()])
        typed = dict(zip(expressions, types[len(types) - len(expressions) :], strict=True))
        terms = {names.index(name): (other, other.term(typed)) for name, other in others.items()}
        after = first + len(alone)
        kept = {f"v{number}": (typed[text].arrow, f"{{{after + number}}}") for number, text in enumerate(expressions)}
        of_user = {} if self.by is None else {"by": (types[len(PLACE)].arrow, f"{{{len(PLACE)}}}")}
        state = event_set(
            {"symbols": (pa.int64(), f"CAST({' + '.join(met) or 0} AS BIGINT)"), **of_user, **kept},
            where="{0} IS NOT NULL" + (f" AND {{{len(PLACE)}}} IS NOT NULL" if of_user else ""),
            limit=self.limit,
        )
        undefined = reduce(or_, (1 << number for number, name in enumerate(names) if name not in self.pattern.defined), 0)
        matching = _Matching(
            automaton(self.pattern.text, names), undefined, expressions, terms, self.by is not None, names, self.match_rows
        )
        return Aggregate((state,), pa.int64(), "integer", lambda columns: matching.present(columns[0]))


def _match_row(condition: Navigated, symbols: Sequence[str]) -> Tracked:
    assert condition.reference is not None
    which, symbol = condition.reference.which, condition.reference.symbol
    return Tracked(which == "first", symbols.index(symbol) if symbol else None)


@dataclass(frozen=True)
class _Matching:
    """What answers need of a bound measure: the symbols without a condition as bits, and conditions by bit."""

    pattern: Automaton
    undefined: int
    expressions: Sequence[str]
    terms: Mapping[int, tuple[Navigated, Term]]
    by: bool
    symbols: tuple[str, ...]
    match_rows: tuple[Tracked, ...]

    def present(self, sets: pa.ListArray) -> pa.Array:
        """The answers of states."""
        lengths = arrays.lengths(sets)
        counts = np.zeros(len(sets), np.int64)
        if lengths.any():
            rows = event_sequences(sets, lengths, "by" if self.by else None)
            every = np.arange(len(rows.time))
            bits = rows.bits("symbols") | self.undefined
            bits |= self.conditions(
                rows, {bit: term for bit, term in self.terms.items() if term[0].reference is None}, every, every
            )
            if self.match_rows:
                np.add.at(counts, *self.count_dependent(rows, bits))
            else:
                counts = np.bincount(rows.group[first_rows(self.pattern, bits, rows.last)], minlength=len(sets))
        return arrays.from_numpy(counts, pa.int64(), ~arrays.validity(sets) | (lengths > 0))

    def conditions(
        self, rows: EventSequences, terms: Mapping[int, tuple[Navigated, Term]], of: Integers, read: Integers
    ) -> Integers:
        """Which of the conditions are met by rows, each with the row of the match that it reads, as bits."""
        bits = np.zeros(len(of), np.int64)
        for bit, (condition, term) in terms.items():
            columns = {
                name: rows.at(field, read) if isinstance(column, Referred) else rows.away(field, of, column.rows)
                for name, column in condition.columns.items()
                for field in [f"v{self.expressions.index(column.expression)}"]
            }
            bits |= values(term, columns).fill_null(False).cast(pa.int64()).to_numpy() << bit
        return bits

    def count_dependent(self, rows: EventSequences, bits: Integers) -> tuple[Integers, Integers]:
        """The group of each sequence, and how many matches it has, if conditions read rows of the match."""
        terms = {bit: term for bit, term in self.terms.items() if term[0].reference is not None}
        reads = {bit: self.match_rows.index(_match_row(condition, self.symbols)) for bit, (condition, _) in terms.items()}
        first = np.flatnonzero(np.append(True, rows.last[:-1]))
        lengths = np.diff(np.append(first, len(bits)))
        numbers = list[int]()
        for some in pieces(lengths * (lengths + 3) // 2):
            pairs = [pairs_of(start, length) for start, length in zip(first[some].tolist(), lengths[some].tolist(), strict=True)]
            met = self.conditions(rows, terms, *(np.concatenate(side) for side in zip(*pairs, strict=True)))
            ends = np.cumsum([len(of) for of, _ in pairs])
            for start, length, part in zip(first[some], lengths[some], np.split(met, ends[:-1]), strict=True):
                table = PairConditions(part.tolist(), starts_of(length).tolist())
                numbers.append(
                    count_dependent(self.pattern, bits[start : start + length].tolist(), table, self.match_rows, reads)
                )
        return rows.group[first], np.array(numbers, np.int64)


def matches(
    pattern: Annotated[str, "a constant"],
    *,
    define: Mapping[str, str],
    limit: int = 1000,
    by: str | None = None,
    filter: str | None = None,  # noqa: A002  the word of SQL
    of: Source | None = None,
) -> Measure:
    """How often a pattern matches: `matches("small{3,} big", define={"small": "amount < 1", "big": "amount > 500"})`.

    `define` has the condition of each symbol; one without a condition is any row. The answer is null with more than `limit`
    events, at most 100 000.
    """
    if not isinstance(define, Mapping) or not all(isinstance(name, str) for name in define):
        raise DefinitionError(f"define {define!r} is not a dict of conditions, such as {{'small': 'amount < 1'}}")
    if not isinstance(pattern, str):
        raise DefinitionError(f"pattern {pattern!r} is not a text, such as 'small{{3,}} big'")
    symbols = dict.fromkeys(symbols_of(row_pattern(pattern)))
    parsed = RowPattern(" ".join(pattern.split()), tuple(symbols), tuple(define))
    return filtered(Matches(parsed, tuple(define.values()), limit, by), filter, of)
