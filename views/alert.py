"""An alert: a condition on the rows of a view, of which it is said when it begins and when it ends."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from string import Formatter
from typing import Final

from tandem.views.errors import DefinitionError, listed
from tandem.views.view import View, answer_schema, bind
from tandem.views.windows.placement import STATES

DAY: Final = timedelta(days=1)


@dataclass(frozen=True, eq=False)
class Alert:
    """A condition on the rows of a view: each key and window for which it is true is raised once and ended once.

    * `when`: a condition over the columns of an answer, such as `"share > 0.05 AND hits >= 100"`. A row that meets it is raised.
    * `states`: the labels of windows that may be raised, such as `("on_time", "final")` for complete windows; all unless given.
    * `clear`: the condition that ends it, where that is not the opposite of `when`.
    * `text`: what it says, with columns in braces, such as `"{route}: {share:.1%} errors"`.
    * `hold`: a row is raised once it has met `when` for so long, so that a value that moves to and fro is not raised each time.
    * `within`: how long after its window's end, by the watermark, a row may be raised and corrected; then it ends.
    * `name`: the variable's name in definitions.py unless given.

    An alert is not a part of what its view means: to change it is not a new definition of the view.
    """

    view: View
    when: str
    states: Sequence[str] = STATES
    clear: str | None = None
    text: str = ""
    hold: timedelta = timedelta(0)
    within: timedelta = DAY
    name: str = ""

    def check(self) -> None:
        """Raise DefinitionError for a value of another type, an unknown label, and a text of unknown columns."""
        for part, value in (("when", self.when), ("clear", self.clear)):
            if not isinstance(value, str) and not (part == "clear" and value is None):
                raise DefinitionError(f"{part} is {value!r}; expected a condition as a text, such as 'n > 100'")
        for part, length, least in (("hold", self.hold, timedelta(0)), ("within", self.within, timedelta.resolution)):
            if not isinstance(length, timedelta) or length < least:
                raise DefinitionError(f"{part} is {length!r}; expected a length of time, such as timedelta(minutes=5)")
        if isinstance(self.states, str) or not isinstance(self.states, Sequence) or not self.states:
            raise DefinitionError(f"states is {self.states!r}; expected a tuple of labels, such as ('on_time', 'final')")
        for label in self.states:
            if label not in STATES:
                raise DefinitionError(f"states has {label!r}; labels of windows: {', '.join(STATES)}")
        placement = bind(self.view).placement
        if "open" not in self.states and not placement.in_order and placement.timing.ends is None:
            raise DefinitionError(
                f"states is {tuple(self.states)}, and rows of view {self.view.name!r} are of all time, so they stay open; leave "
                "states out"
            )
        self._check_text()

    def _check_text(self) -> None:
        columns = answer_schema(self.view).names
        try:
            parts = [*Formatter().parse(self.text)]
        except (TypeError, ValueError) as error:
            raise DefinitionError(f"text {self.text!r}: {error}; write {{{{ for a brace") from None
        for _, column, form, conversion in parts:
            if column is None:
                continue
            if column not in columns:
                raise DefinitionError(
                    f"text {self.text!r}: view {self.view.name!r} has no column {column!r}; columns: {listed(column, columns)}"
                )
            if conversion or "{" in (form or ""):
                raise DefinitionError(f"text {self.text!r}: {{{column}}} takes a format alone, such as {{{column}:>8}}")
