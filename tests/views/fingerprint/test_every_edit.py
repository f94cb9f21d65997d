"""For each of many edits to a project: whether the fingerprints change, what kind of change it is, and that it is named."""

# ruff: noqa: E501 - a table reads best with one edit a line

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tandem.views.fingerprint.definition_diff import DefinitionChanges, Kind, ViewChanges, compare
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint, fingerprint
from tandem.views.project.project import Project
from tests.views.edited import edited

D, L, R, S = "definitions.py", "lines.py", "rules.py", "spread.py"
LIMITS, SHIFTS = "tables/limits.py", "tables/shifts.py"


class Edit(NamedTuple):
    """One text replaced, and what becomes of one view; the other one stays as it is, and says nothing."""

    file: str
    old: str
    new: str
    kind: Kind
    words: str
    """What the sentences say, as a regular expression; empty if there are none."""
    view: str = "sales"


EVENT = "event type Order: field "

EDITS = [
    # The event type of `sales`.
    Edit(D, "note: str", "remark: str", "source", f"{EVENT}'note' removed; {EVENT}'remark' added: str \\| None = None"),
    Edit(D, "note: str", "note: int", "source", f"{EVENT}'note': str \\| None = None -> int \\| None = None"),
    Edit(D, "place: Place\n", "place: Place\n    more: float\n", "source", f"{EVENT}'more' added: float"),
    Edit(D, "amount: Annotated[int", "amount: Annotated[float", "source", f"{EVENT}'amount': int \\(ge 0\\) = 1 -> float \\(ge 0\\) = 1"),
    Edit(D, "ge=0", "ge=1", "source", "'amount': int \\(ge 0\\) = 1 -> int \\(ge 1\\) = 1"),
    Edit(D, "] = 1", "] = 2", "source", "'amount': .*= 1 -> .*= 2"),
    Edit(D, "Scale(2)", "Scale(3)", "source", "'price': Decimal of 2 digits -> Decimal of 3 digits"),
    Edit(D, "note: str | None = None", 'note: str = ""', "source", "'note': str \\| None = None -> str = ''"),
    Edit(D, "id: str", "id: UUID", "source", "'id': str -> UUID"),
    Edit(D, '["none"]', '["some"]', "source", "function without a name in definitions.py:\\d+ changed"),
    Edit(D, "lambda: [", "lambda: 1 and [", "source", "function without a name in definitions.py:\\d+ changed"),
    Edit(D, "tags: list[str]", "tags: list[bytes]", "source", "'tags', its items: str -> bytes"),
    Edit(D, "city: str", "city: str | None", "source", "'place', field 'city': str -> str \\| None"),
    Edit(D, "lanes: list[int]", "lanes: list[float]", "source", "'place', field 'lanes', its items: int -> float"),
    Edit(D, "msgspec.Struct", "msgspec.Struct, forbid_unknown_fields=True", "source", "'place': no options -> forbid_unknown"),
    Edit(D, '"web", "shop"', '"web", "shop", "fair"', "source", "'channel': one of 'shop', 'web' = 'web' -> one of 'fair', 'shop'"),
    Edit(D, "class Base(Floor)", 'class Base(Floor, rename="upper")', "source", "'id' removed; .*'ID' added: str, named id"),
    Edit(D, "class Base(Floor)", "class Base(Floor, array_like=True)", "source", "type Order: no options -> array_like=True"),
    Edit(D, '"l"', '"xl"', "source", "'size': one of 'l', 's' -> one of 's', 'xl'"),
    Edit(D, "held > rules", "held >= rules", "source", "method Order.__post_init__ in definitions.py:\\d+ changed"),
    Edit(D, "amount >= self.low()", "amount > self.low()", "source", "method Order.valid in definitions.py:\\d+ changed"),
    Edit(D, "FLOOR: ClassVar[int] = 0", "FLOOR: ClassVar[int] = 1", "source", "constant Floor.FLOOR in definitions.py:41 changed"),
    Edit(D, "return self.FLOOR", "return -self.FLOOR", "source", "method Base.low in definitions.py:45 changed"),
    Edit(D, '"a+"', '"b+"', "source", "constant PATTERN in definitions.py:23 changed"),
    Edit(D, "import cap as", "import small as", "source", "function cap in rules.py:7 is no longer used"),
    Edit(D, "value == rules", "value != rules", "source", "method Size._missing_ in definitions.py:31 changed"),
    Edit(D, "sales = View", "Order.valid = lambda self, held: True\nsales = View", "source", "change of Order in .*:\\d+ is used now"),
    Edit(R, "number * factor", "number + factor", "source", "function cap in rules.py:7 changed"),
    Edit(R, '"x"', '"y"', "source", "function small in rules.py:12 changed"),
    Edit(R, "def small", "\n\ndef tiny():\n    return 1\n\ndef small", "none", ""),
    Edit(R, "import LIMITS, FACTOR as factor", "import LIMITS, OTHER, FACTOR as factor", "none", ""),
    Edit(LIMITS, '["most"] = 7', '["most"] = 9', "source", "constant LIMITS in tables/limits.py:2 changed"),
    Edit(LIMITS, "FACTOR = 3", "FACTOR = 2 + 1", "source", "constant FACTOR in tables/limits.py:6 changed"),
    Edit(SHIFTS, "SHIFT = 4", "SHIFT = 5", "source", "constant SHIFT in tables/shifts.py:2 changed"),
    Edit(SHIFTS, "return SHIFT", "return -SHIFT", "source", "function shift in tables/shifts.py:5 changed"),
    # Its source.
    Edit(D, 'topic="orders", event', 'topic="orders", metadata=("_key",), event', "source", "metadata: none -> _key"),
    Edit(
        D,
        'topic="orders", event',
        'topic="orders", plausible=tuple(map(datetime.fromisoformat, ("2020-01-01T00:00Z", "2021-01-01T00:00Z"))), event',
        "source",
        "plausible: 2000-01-01.* to 2100.* -> 2020-01-01.* to 2021",
    ),
    Edit(D, 'orders", event=Order, event_time="at"', 'orders", event=Order, event_time="_append_time"', "source", "event_time: at -> _a"),
    Edit(D, 'orders", event=Order, event_time="at", identity=("id", "size")', 'orders", event=Order, event_time="at", identity=("size", "id")', "none", ""),
    Edit(D, 'orders", event=Order, event_time="at", identity=("id", "size")', 'orders", event=Order, event_time="at", identity=("id",)', "breaking", "identity: id, size -> id"),
    Edit(D, 'topic="orders", event', 'topic="orders", prepare=as_it_is, event', "breaking", "prepare: none -> function as_it_is"),
    Edit(D, "source=orders", "source=copies", "breaking", "source: orders -> copies"),
    # The view.
    Edit(D, "amount > 0", "amount >= 0", "breaking", "filter: amount > 0 -> amount >= 0"),
    Edit(D, '    where="amount > 0",\n', "", "breaking", "filter: amount > 0 -> none"),
    Edit(D, '{"size":', '{"id": "id", "size":', "breaking", "key 'id' added: id"),
    Edit(D, '"size": "size"', '"size": "lower(size)"', "breaking", "key 'size': size -> lower\\(size\\)"),
    Edit(D, '{"size": "size", "big": "amount > 10"}', '{"big": "amount > 10", "size": "size"}', "breaking", "keys, in another order: size, big -> big, size"),
    Edit(D, '"big"', '"huge"', "breaking", "key 'big' removed; key 'huge' added: amount > 10"),
    Edit(D, "minutes=1", "minutes=5", "breaking", "window: tumbling\\(minutes=1\\) -> tumbling\\(minutes=5\\)"),
    Edit(D, "0.9)", "0.99)", "breaking", r"""measure 'q': approx_quantiles\("amount", \(0.5, 0.9\)\) -> approx_quantiles\("amount", \(0.5, 0.99\)\)"""),
    Edit(D, '"amount < 9"', '"amount < 8"', "breaking", "measure 'most': maximum.*amount < 9.* -> .*amount < 8"),
    Edit(D, "maximum(", "mean(", "breaking", "measure 'most': maximum.* -> mean"),
    Edit(D, '"most": maximum', '"top": maximum', "breaking", "measure 'most' removed; measure 'top' added: maximum"),
    Edit(D, 'total("price")', 'total("-price")', "breaking", r"measure 'paid': total\(\"price\"\) -> total\(\"-price\"\)"),
    Edit(D, "paid / n", "paid / most", "breaking", "measure 'each': .*paid / n.* -> .*paid / most"),
    Edit(D, '        "n": count(),\n', '        "n": count(),\n        "mid": mean("amount"),\n', "additive", "measure 'mid' added: mean"),
    Edit(D, '"each":', '"half": derived("paid / 2"),\n        "each":', "additive", r"measure 'half' added: derived\(\"paid / 2\"\)"),
    Edit(D, '"each":', '"s": Spread("amount", 1),\n        "each":', "additive", "measure 's' added: Spread"),
    # What changes no number of it.
    Edit(D, "amount > 0", "(amount)  >  0 -- positive", "none", r"filter, written otherwise: amount > 0 -> \(amount\) > 0 -- positive"),
    Edit(D, "amount > 0", "AMOUNT > 0", "none", "filter, written otherwise: amount > 0 -> AMOUNT > 0"),
    Edit(D, "minutes=1", "seconds=60", "none", ""),
    Edit(D, '        "n": count(),\n        "paid": total("price"),', '        "paid": total("price"),\n        "n": count(),', "none", "measures, in another order: n, paid, .* -> paid, n, "),
    Edit(D, '"What is sold."', '"What is bought."', "none", "doc of view: What is sold. -> What is bought."),
    Edit(D, '"paid": "EUR"', '"paid": "USD"', "none", "unit of measure 'paid': EUR -> USD"),
    Edit(D, 'description="pieces"', 'description="boxes"', "none", f"doc of {EVENT}'amount': pieces -> boxes"),
    Edit(D, "note: str", 'note: Annotated[str, Unit("x")]', "none", f"unit of {EVENT}'note': none -> x"),
    Edit(D, "    id: str\n    at: datetime\n", "    at: datetime\n    id: str\n", "none", "event type Order, in another order: id, at"),
    Edit(D, '"""An order."""\n', "", "none", ""),
    Edit(D, "# A comment.", "# Another.", "none", ""),
    Edit(D, '"""Check it."""\n', "", "none", ""),
    Edit(D, "held", "kept", "none", ""),
    Edit(D, "UNUSED = 1", "UNUSED = 2", "none", ""),
    Edit(D, "return UNUSED", "return UNUSED + 1", "none", ""),
    Edit(D, "LARGE", "HUGE", "none", ""),
    Edit(D, "Place", "Address", "none", f"{EVENT}'place', written otherwise: Place -> Address"),
    Edit(D, 'topic="orders"', 'topic="orders2"', "none", ""),
    Edit(D, 'topic="orders"', 'key="id", topic="orders"', "none", ""),
    Edit(R, "result", "capped", "none", ""),
    Edit(R, "part", "piece", "none", ""),
    Edit(R, "cap(number)", "cap(number: int) -> int", "none", ""),
    Edit(R, '"""Cap a number."""', "'''Another docstring.'''; 'and a constant'", "none", ""),
    Edit(R, "factor + 1", "factor + 2", "none", ""),
    Edit(LIMITS, "= 8", "= 9", "none", ""),
    Edit(LIMITS, "FACTOR = 3", "FACTOR: int = (3)  # comment", "none", ""),
    # The other view: a decoder, a preparing function and a measure of the project's.
    Edit(L, "LONGEST = 80", "LONGEST = 90", "source", "constant LONGEST in lines.py:9 changed", "words"),
    Edit(L, "text=text[", "text=text[1:", "source", "function read_line in lines.py:18 changed", "words"),
    Edit(L, "text: str", "text: str | None", "source", "event type Line: field 'text': str -> str \\| None", "words"),
    Edit(SHIFTS, 'MARK = b"|"', 'MARK = b";"', "source", "constant MARK in tables/shifts.py:3 changed", "words"),
    Edit(D, ", decoder=read_line", "", "source", "decoder: function read_line -> json\\(\\)", "words"),
    Edit(D, "decoder=read_line", 'decoder=csv(columns=("at", "text"))', "source", "decoder: function read_line -> csv\\(columns=", "words"),
    Edit(L, '"the"', '"a"', "breaking", "function stop in lines.py:27 changed", "words"),
    Edit(L, "not_equal", "equal", "breaking", "function by_word in lines.py:31 changed", "words"),
    Edit(D, ", prepare=by_word)", ", prepare=as_it_is)", "breaking", "prepare: function by_word -> function as_it_is", "words"),
    Edit(L, "found", "rows", "none", "", "words"),
    Edit(S, "[min(numbers), max(numbers)]", "[max(numbers), min(numbers)]", "breaking", "method Spread.ends in spread.py:32 changed", "words"),
    Edit(S, "(self.expression,)", "(self.expression + ' + 1',)", "breaking", "measure 'spread' changed", "words"),
    Edit(S, "answer = pa.int64()", "answer = pa.float64()", "breaking", "Spread", "words"),
    Edit(S, "return None\n", 'return None\n\nsetattr(Spread, "factor", 2)\n', "breaking", "Spread", "words"),
    Edit(S, "        return None", "        return 1", "none", "", "words"),
    Edit(S, "groups", "lists", "none", "", "words"),
    Edit(S, '"""From the least to the greatest."""', "", "none", "", "words"),
    Edit(R, "state[1] - state[0]", "state[0] - state[1]", "breaking", "function widest in rules.py:15 changed", "words"),
    Edit(D, '"length", 2)', '"length", 3)', "breaking", r"""measure 'spread': Spread\("length", 2\) -> Spread\("length", 3\)""", "words"),
    Edit(D, '"spread": Spread("length", 2)', '"spread": Spread("length", 2), "least": Spread("length", 1)', "additive", "'least' added", "words"),
]  # fmt: skip


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return edited(tmp_path_factory.mktemp("before"))


SAMPLED = [
    pytest.param(edit, id=f"{edit.old.strip()[:30]} -> {edit.new.strip()[:30]}", marks=pytest.mark.slow if number % 2 else ())
    for number, edit in enumerate(EDITS)
]
"""Every second edit is tried under `--all` only."""


def views(changes: DefinitionChanges) -> dict[str, ViewChanges]:
    return {view.name: view for view in changes.views}


@pytest.mark.parametrize("edit", SAMPLED)
def test_fingerprints_kind_and_words_say_the_same(edit: Edit, before: Project, tmp_path: Path) -> None:
    after = edited(tmp_path, edit[:3])
    found = views(compare(before, after))
    for name, view in found.items():
        source = after.views[name].source
        was = before.sources[source.name]
        expected = edit.kind if name == edit.view else "none"
        assert (fingerprint(after.views[name]) != fingerprint(before.views[name])) is (expected != "none"), name
        assert (decoder_fingerprint(source) != decoder_fingerprint(was)) is (expected == "source"), name
        assert (view.status, view.kind) == ("unchanged" if expected == "none" else "changed", expected), view
        said = "; ".join(change.words for change in view.changes)
        assert re.search(edit.words, said) if name == edit.view and edit.words else not said, said
