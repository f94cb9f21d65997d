"""Times of Apache's `%{...}t`: a pattern of strftime, or a number since 1970; several directives may write one time."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final

from tandem.views.errors import DefinitionError
from tandem.views.source.event import TIMESTAMP
from tandem.views.source.fields.clock_values import epoch_time
from tandem.views.source.fields.time_patterns import expression
from tandem.views.source.formats.access_logs.log_lines import Slot
from tandem.views.source.formats.access_logs.log_slots import DIGITS
from tandem.views.source.time_notation import EpochUnit, Format

_EPOCHS: Final[dict[str, EpochUnit]] = {"sec": "s", "msec": "ms", "usec": "us"}
_FRACTIONS: Final = {"msec_frac": r"\d{3}", "usec_frac": r"\d{6}"}
_NAMES: Final = {"": "time", "begin:": "time", "end:": "end_time"}


def time_slot(parts: Sequence[str], what: str) -> Slot:
    """The slot of a time that these directives write: their arguments, with the literal texts between them.

    Raises DefinitionError if they do not write a whole time; `what` names the format.
    """
    prefix = next((name for name in ("begin:", "end:") if parts[0].startswith(name)), "")
    texts = [part.removeprefix(prefix) if number % 2 == 0 else part for number, part in enumerate(parts)]
    name = _NAMES[prefix]
    if (unit := _EPOCHS.get(texts[0])) is not None:
        fraction = _FRACTIONS.get(texts[2]) if len(texts) == 3 and texts[1] == "." and unit == "s" else None
        if len(texts) > 1 and fraction is None:
            text = _source_text(parts)
            raise DefinitionError(f"{what}: {text} is not a whole time: a fraction goes with %{{sec}}t, after a point")
        pattern = DIGITS if fraction is None else rf"\d++\.{fraction}"
        return Slot(name, pattern, TIMESTAMP, partial(_since_1970, unit=unit), only=True)
    pattern = "".join(_strftime(text) if number % 2 == 0 else text.replace("%", "%%") for number, text in enumerate(texts))
    try:
        format_ = Format(pattern)
    except DefinitionError as error:
        raise DefinitionError(f"{what}: {_source_text(parts)} is not a whole time: {error}") from error
    return Slot(name, expression(format_), format=format_)


def _strftime(text: str) -> str:
    return "%f" if text in _FRACTIONS else text


def _since_1970(text: str, *, unit: EpochUnit) -> datetime:
    return epoch_time(text, unit)


def _source_text(parts: Sequence[str]) -> str:
    return "".join(f"%{{{part}}}t" if number % 2 == 0 else part for number, part in enumerate(parts))
