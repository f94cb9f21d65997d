"""`tandem diff`: the rows in which a release that is not live answers differently, and why."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.options import release_of
from tandem.cli.command.text_tables import aligned
from tandem.cli.release.diff_figures import difference_cells, difference_document, figures
from tandem.cli.release.markdown import markdown_table, plain
from tandem.ledger.delta.addresses import Tables
from tandem.ledger.log.positions import distance
from tandem.ledger.publish.promotion import NotReady
from tandem.serving.read.merged_layers import Reader
from tandem.serving.read.release_comparison import ReasonedRow, ReleaseComparison, ViewComparison
from tandem.views.counted import counted
from tandem.views.errors import TandemError
from tandem.views.verify.release_diff import to_json

ROWS: Final = 20


def run(
    call: Call,
    release: Annotated[int, typer.Argument(min=1, help="The ready or standing release to compare with the live one.")],
    *,
    view: Annotated[
        list[str] | None, typer.Option(metavar="VIEW", help="Compare this view; may be repeated. Default: all views of both.")
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Rows with this value of a key; NAME alone means NULL. Once per key."),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, metavar="N", help="Print only the N worst rows of each view.")] = ROWS,
    format_: Annotated[Literal["table", "json"] | None, typer.Option("--format", help="Output format. Default: table.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown, for the comment of a pull request.")] = False,
) -> Output:
    """Compare the answers of a release with those of the live release: both layers, at one snapshot of each.

    Each view has its totals first: the rows that are the same, changed, only live and only in the release. Then come the rows
    that differ, the worst first:

    1. by the largest relative error of a measure, |a - b| / ((|a| + |b|) / 2); a row of one side alone has the largest, 2
    2. by the largest absolute error
    3. by keys and window

    Each row has its reasons:

    * `new definition`: the measure, or the view, has another meaning
    * `late events`: one side counts events that came after the position that both have counted
    * `repaired duplicates`: one side counts a duplicate that the other has removed
    * `other records`: one side has read records that the other did not read

    Of reasons that are joined with `or`, at least one holds: the figures do not show which. Equal meanings may also
    differ as `tandem audit` reports.
    """
    if markdown and (call.json or format_ is not None):
        raise TandemError("--markdown cannot be combined with --format or --json", code="usage-invalid")
    if call.json and format_ == "table":
        raise TandemError("--json and --format table cannot be combined", code="usage-invalid")
    if key and not view:
        raise TandemError("--key needs --view, because views have different keys", code="usage-invalid")
    settings = call.settings()
    tables = Tables.of(settings)
    asked = release_of(settings, release)
    compared = ReleaseComparison(Reader(tables), Reader(tables, asked=asked))
    if compared.other.snapshot().live:
        raise NotReady(f"release {release} is live already, so there is nothing to compare")
    comparisons = [compared.of(name, key or ()) for name in view or compared.views()]
    document = {
        "release": release,
        "live_release": compared.live.snapshot().publication.release,
        "publication": compared.live.snapshot().publication.number,
        "views": {each.view: _document(each, limit) for each in comparisons},
    }
    if markdown:
        return Output(document, "\n".join(_markdown(document)))
    if format_ == "json":
        return Output(document, json.dumps(document, ensure_ascii=False, allow_nan=False))
    return Output(document, "\n".join(_lines(document)))


def _document(comparison: ViewComparison, limit: int) -> dict[str, Any]:
    """A view's totals, how many rows have each reason, where both sides stood, and its worst rows."""
    reasons = Counter(str(row.why) for row in comparison.rows)
    totals = to_json(comparison.totals)
    return {
        **{name: totals[name] for name in ("matched", "changed", "only_old", "only_new", "comparable")},
        "same": comparison.totals.matched - comparison.totals.changed,
        "reasons": dict(reasons.most_common()),
        "positions": {
            "live": comparison.live.realtime.to_json(),
            "release": comparison.other.realtime.to_json(),
            "common": None if comparison.common is None else comparison.common.to_json(),
        },
        "beyond": None
        if comparison.common is None
        else {
            "live": distance(comparison.common, comparison.live.realtime),
            "release": distance(comparison.common, comparison.other.realtime),
        },
        "differing": len(comparison.rows),
        "rows": [_row(row) for row in comparison.rows[:limit]],
    }


def _row(row: ReasonedRow) -> dict[str, Any]:
    return {**difference_document(row.difference), "reasons": list(row.why.reasons), "certain": row.why.certain}


def _headline(document: Mapping[str, Any]) -> str:
    live, publication = document["live_release"], document["publication"]
    return f"release {document['release']} as if it were promoted now, beside the live release {live} (publication {publication})"


def _about(view: Mapping[str, Any]) -> Iterator[str]:
    """The lines below a view's totals: where both sides stand, and how many rows have which reasons."""
    beyond = view["beyond"]
    if beyond is None:
        yield "both sides have no position in common, so late events may be a reason of every row"
    elif any(beyond.values()):
        yield (
            f"beyond the position that both have counted, the live release counts {counted(beyond['live'], 'offset')} and "
            f"this release {counted(beyond['release'], 'offset')}"
        )
    if view["reasons"]:
        yield "reasons: " + ", ".join(f"{counted(number, 'row')} {reason}" for reason, number in view["reasons"].items())
    if len(view["rows"]) < view["differing"]:
        yield f"the {len(view['rows'])} worst of {counted(view['differing'], 'row')}"


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield _headline(document)
    for name, view in document["views"].items():
        yield f"view {name}: {figures(view, document['release'])}"
        yield from (f"  {line}" for line in _about(view))
        yield from (f"  {line}" for line in aligned([_cells(row) for row in view["rows"]]))


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row that differs, for a person: keys and window, the values of both sides, and the reasons. No key has a space."""
    return {**difference_cells(row), "its reason": (" and " if row["certain"] else " or ").join(row["reasons"])}


def _markdown(document: Mapping[str, Any]) -> Iterator[str]:
    """The same for the comment of a pull request."""
    yield f"### {_headline(document)}"
    yield ""
    release, views = document["release"], document["views"]
    rows = [
        {"view": name, "the same": view["same"], "changed": view["changed"], "only live": view["only_old"],
         f"only release {release}": view["only_new"]}
        for name, view in views.items()
    ]  # fmt: skip
    yield from markdown_table(rows)
    for name, view in views.items():
        about = [*([] if view["comparable"] else ["its keys or windows differ, so rows cannot be paired"]), *_about(view)]
        if about or view["rows"]:
            yield ""
            yield f"**{plain(name)}**"
            yield from (f"* {plain(line)}" for line in about)
        if view["rows"]:
            yield ""
            yield from markdown_table([_cells(row) for row in view["rows"]])
