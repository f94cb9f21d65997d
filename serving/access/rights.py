"""Rights: verbs, and the views and rows to which they apply."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Literal, Self, cast, get_args

import pyarrow as pa

from tandem.serving.read.selection import BadSelection, parse_keys
from tandem.views.errors import TandemError, listed
from tandem.views.view import View

Verb = Literal["read", "sql", "release", "ingest", "admin"]
"""read: rows of views. sql: SQL statements. release: what these answer from releases that are not live. ingest: writing events.
admin: runs of commands. None implies another.
"""

VERBS: Final = get_args(Verb)


class BadRights(TandemError, code="rights-invalid"):
    """Rights that contradict themselves or name an unknown verb."""


@dataclass(frozen=True)
class Rights:
    """What a principal may do.

    `views` are the views to which the verbs apply, None for all; events may be sent only to the sources of these views. `rows`
    are values of keys, as `NAME=VALUE`, or `NAME` alone for NULL: only rows with these values are visible, so a view without
    such a key has no visible row.
    """

    verbs: frozenset[Verb] = frozenset()
    views: frozenset[str] | None = None
    rows: tuple[str, ...] = ()

    @classmethod
    def of(cls, *, may: Iterable[str], views: Iterable[str] = (), rows: Iterable[str] = ()) -> Self:
        """Rights from what a person writes; without views they apply to all. Raises BadRights."""
        verbs, named, bound = list(may), frozenset(views), tuple(rows)
        for verb in verbs:
            if verb not in VERBS:
                raise BadRights(f"unknown right {verb!r}; use {listed(verb, VERBS)}")
        if not verbs:
            raise BadRights(f"rights without a verb allow nothing; add some of {', '.join(VERBS)}")
        names = [row.partition("=")[0] for row in bound]
        for name in names:
            if not name or names.count(name) > 1:
                raise BadRights(f"invalid rows {', '.join(bound)}; name each key once, such as city=OSLO")
        if bound and "ingest" in verbs:
            raise BadRights("rights for single rows cannot include ingest, because an event is not a row of a view")
        return cls(frozenset(cast("Verb", verb) for verb in verbs), named or None, bound)

    @property
    def restricted(self) -> bool:
        """Whether the rights apply to only a part of the project."""
        return self.views is not None or bool(self.rows)

    def to_json(self) -> dict[str, Any]:
        """A document `{"may": [...], "views": null or [...], "rows": [...]}`."""
        views = None if self.views is None else sorted(self.views)
        return {"may": sorted(self.verbs), "views": views, "rows": list(self.rows)}

    def may_send(self, views: Iterable[View]) -> bool:
        """Whether events may be written to the source of these views, which are all views of it."""
        return "ingest" in self.verbs and (self.views is None or any(view.name in self.views for view in views))

    def bound(self, view: View) -> dict[str, pa.Scalar] | None:
        """The key values that visible rows of the view have; None if no row of it is visible."""
        if self.views is not None and view.name not in self.views:
            return None
        try:
            return parse_keys(view, self.rows)
        except BadSelection:  # the view has no such key, or it holds other values: no row can be among those that may be seen
            return None


@dataclass(frozen=True)
class Principal:
    """An authenticated caller: a name that is unique within its kind, its rights, and when they expire."""

    kind: Literal["token", "oidc"]
    name: str
    rights: Rights
    expires: datetime

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def parse_rights(texts: Iterable[str]) -> Rights:
    """Rights from words, as settings have them: a verb, `view:NAME` or `row:NAME=VALUE` each. Raises BadRights."""
    parts: dict[str, list[str]] = {"may": [], "view": [], "row": []}
    for text in texts:
        kind, given, value = text.partition(":")
        if given and kind not in ("view", "row"):
            raise BadRights(f"unknown right {text!r}; use a verb ({', '.join(VERBS)}), view:NAME or row:NAME=VALUE")
        parts[kind if given else "may"].append(value if given else text)
    return Rights.of(may=parts["may"], views=parts["view"], rows=parts["row"])
