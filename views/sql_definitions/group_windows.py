"""Windows in GROUP BY: TUMBLE, HOP and SESSION as in Flink and Calcite, date_trunc with a zone, and those of the log's order."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tandem.views.errors import DefinitionError
from tandem.views.sql_definitions.literals import constant, interval
from tandem.views.sql_definitions.statements import Fragment
from tandem.views.windows import Calendar, CountWindow, Delta, Hopping, Punctuation, Session, SlidingCountWindow, Tumbling, Window

Arguments = Sequence[Fragment]

_FORMS: Final[Mapping[str, tuple[str, bool, Callable[[Arguments], Window]]]] = {
    "tumble": ("TUMBLE(time, INTERVAL '1 hour')", True, lambda of: Tumbling(interval(of[1]))),
    "hop": (
        "HOP(time, INTERVAL '5 minutes', INTERVAL '1 hour'), first the step, then the size",
        True,
        lambda of: Hopping(interval(of[2]), interval(of[1])),
    ),
    "session": ("SESSION(time, INTERVAL '30 minutes')", True, lambda of: Session(interval(of[1]))),
    "date_trunc": (
        "date_trunc('day', time, 'Europe/Berlin')",
        True,
        lambda of: Calendar(constant(of[0]), constant(of[2])),
    ),
    "count_window": ("COUNT_WINDOW(100)", False, lambda of: CountWindow(constant(of[0]))),
    "sliding_count_window": ("SLIDING_COUNT_WINDOW(10)", False, lambda of: SlidingCountWindow(constant(of[0]))),
    "delta": ("DELTA(expression, 0.5)", False, lambda of: Delta(of[0].text, constant(of[1]))),
    "punctuation": ("PUNCTUATION(condition)", False, lambda of: Punctuation(of[0].text)),
}
_COUNTS: Final = {"tumble": 2, "hop": 3, "session": 2, "date_trunc": 3, "count_window": 1, "sliding_count_window": 1, "delta": 2}
_LACKING: Final = {
    "cumulate": "cumulative windows are not kept; take TUMBLE(...) of the step, and ask any range of it as one window with --one",
    "window": "window(...) is Spark's; write TUMBLE(time, size) or HOP(time, step, size)",
    "tumbling": "the window is written TUMBLE(time, INTERVAL '1 hour')",
    "hopping": "the window is written HOP(time, INTERVAL '5 minutes', INTERVAL '1 hour')",
}


def window_of(part: Fragment) -> tuple[Window, Fragment | None] | None:
    """The window that an item of GROUP BY is, with the time that it names; None if the item is another expression.

    Raises DefinitionError for a window that there is not, or of another form.
    """
    called = part.call()
    if called is None:
        return None
    name, arguments = called[0].lower(), called[1]
    if name in _LACKING:
        raise part.fault(_LACKING[name])
    if name not in _FORMS or (name == "date_trunc" and len(arguments) < 3):
        return None
    form, timed, build = _FORMS[name]
    if len(arguments) != _COUNTS.get(name, 1):
        raise part.fault(f"the window has the form {form}")
    try:
        window = build(arguments)
    except (DefinitionError, TypeError) as error:
        message = str(error)
        if message.startswith(f"{part.script.file}:"):
            raise
        raise part.fault(message) from error
    return window, arguments[1 if name == "date_trunc" else 0] if timed else None
