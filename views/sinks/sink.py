"""A sink: a target elsewhere that is kept equal to a view, or to some of its rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tandem.views.errors import DefinitionError, listed
from tandem.views.view import View


class SinkTarget:
    """Where a sink writes, as a definition says it: a frozen dataclass for each kind. Equal targets are the same place.

    `str` is the call that creates it; it has no secret. `outputs` are those that it can take.
    """

    outputs: ClassVar[tuple[str, ...]] = ("update",)


@dataclass(frozen=True, eq=False)
class Sink:
    """A target that `tandem sink` keeps equal to a view: its rows are the view's at the token that is stored with them.

    * `to`: the target, such as `delta_table("s3://lake/sales")`.
    * `keys`: only the rows with these values of keys; None means NULL.
    * `where`: only the rows for which this condition over the columns of an answer is true, such as `"n > 100"`.
    * `output`: what is written. `update`: the rows as they are. `append`: each row once, when its window is final, and later
      changes of it as late ones. `changes`: each row before and after a change. The last two are for targets that are logs.
    * `name`: the variable's name in definitions.py unless given.

    A sink is not a part of what its view means: to change it is not a new definition of the view.
    """

    view: View
    to: SinkTarget
    keys: Mapping[str, Any] = field(default_factory=dict)
    where: str | None = None
    output: str = "update"
    name: str = ""

    def check(self) -> None:
        """Raise DefinitionError for a value of another type, and for an unknown key."""
        if not isinstance(self.to, SinkTarget):
            raise DefinitionError(f"to is {self.to!r}; expected a target, such as delta_table('sales')")
        if not isinstance(self.keys, Mapping):
            raise DefinitionError(f"keys is {self.keys!r}; expected values by name of a key, such as {{'city': 'OSLO'}}")
        for key in self.keys:
            if key not in self.view.keys:
                raise DefinitionError(f"view {self.view.name!r} has no key {key!r}; keys: {listed(str(key), self.view.keys)}")
        if self.where is not None and not isinstance(self.where, str):
            raise DefinitionError(f"where is {self.where!r}; expected a condition as a text, such as 'n > 100'")
        if self.output not in self.to.outputs:
            outputs = listed(str(self.output), self.to.outputs)
            raise DefinitionError(f"output {self.output!r} is not for {self.to}; outputs: {outputs}")
