"""Definitions without their code: they have all that is data, and ask the process that runs the code for the rest."""

from dataclasses import dataclass, field

from tandem.views.fingerprint.fingerprint import fingerprint
from tandem.views.source.source import Source
from tandem.views.view import View


@dataclass(frozen=True, eq=False)
class DescribedView(View):
    """A view that was made from a project's document; `meaning` is its fingerprint as the document says it.

    With `code`, merging and presenting its states runs code of the project.
    """

    meaning: str = field(default="", kw_only=True)
    code: bool = field(default=False, kw_only=True)


@dataclass(frozen=True)
class DescribedSource(Source):
    """A source that was made from a project's document; with `code`, decoding its records runs code of the project."""

    code: bool = field(default=False, kw_only=True)


def meaning_of(view: View) -> str:
    """The view's fingerprint; for a view from a document, the document holds it."""
    return view.meaning if isinstance(view, DescribedView) else fingerprint(view)


def runs_code(view: View) -> bool:
    """Whether merging and presenting the view's states runs a project's code in another process."""
    return isinstance(view, DescribedView) and view.code


def decoded_elsewhere(source: Source) -> bool:
    """Whether the source's records can only be decoded by another process."""
    return isinstance(source, DescribedSource) and source.code
