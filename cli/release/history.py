"""`tandem history`: list the publications, which were live since when and why."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from tandem.cli.command.call import Call, Output
from tandem.cli.command.text_tables import listing
from tandem.ledger.delta.addresses import Tables
from tandem.serving.status.releases import documents
from tandem.views.counted import counted


def run(
    call: Call,
    *,
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only the newest N.")] = None,
) -> Output:
    """List the publications, newest first: who, what, when and why, the cut, the code, and what a promotion changed."""
    shown, total = documents(Tables.of(call.settings()), limit)
    return Output(
        {"publications": shown}, listing([_row(one) for one in shown], total=total) if shown else "nothing is published yet"
    )


def _row(document: Mapping[str, Any]) -> dict[str, Any]:
    """A publication narrow enough for a screen."""
    diff = document["diff"] or {}
    changed = [f"{name}: {_changed(view)}" for name, view in diff.items() if view["status"] == "changed"]
    return {
        "publication": document["publication"],
        "kind": document["kind"],
        "at": document["at"][:19] + "Z",
        "by": document["by"],
        "release": document["release"],
        "revision": document["revision"],
        "cut": sum(offset for cut in document["cuts"].values() for topic in cut.values() for offset in topic.values()),
        "why": "; ".join(filter(None, [document["why"], *_times(document), *_despite(document), *changed])),
    }


def _despite(document: Mapping[str, Any]) -> list[str]:
    return [f"despite gap {gap}" for gap in document["gaps"]]


def _times(document: Mapping[str, Any]) -> list[str]:
    return [f"{name} from {', '.join(times)} on" for name, times in document.get("from", {}).items()]


def _changed(view: Mapping[str, Any]) -> str:
    """The number of changed rows of a view; if keys or windows differ, or one side is empty, the rows of each side."""
    beside = {"gone": view["only_old"], "new": view["only_new"]}
    told = [f"{number} {what}" for what, number in beside.items() if number]
    if view["matched"]:
        told = [f"{view['changed']} of {counted(view['matched'], 'row')}", *told]
    return ", ".join(told) or "no rows yet"
