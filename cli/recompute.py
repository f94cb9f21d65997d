"""`tandem recompute`: fold the whole log into new batch views, and publish them."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated

import typer

from batch import recompute
from batch.session import Run
from cli.call import Call, Output
from ledger.counts import Counts


def run(
    call: Call,
    *,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Make the definitions in the project's folder the next release.")
    ] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Read the archive itself, not the events decoded from it.")] = False,
    accept_gap: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Count without the offsets of this gap; may be repeated.")
    ] = None,
) -> Output:
    """Fold everything that is archived into new batch views of every view, and publish them with their cut.

    The definitions are those of the published release, whatever the project's folder says by now, unless they are adopted.
    """
    settings = call.settings()
    batch = Run(settings, "recompute", now=lambda: datetime.now(UTC), say=call.say, environ=call.environ, debug=call.debug)
    done = recompute.run(batch, call.definitions, adopt=adopt, raw=raw, accepted=tuple(accept_gap or ()))
    live = done.publication
    document = {
        "publication": live.number,
        "release": live.release,
        "cuts": {source: cut.to_json() for source, cut in live.cuts.items()},
        "counts": {source: counts.to_json() for source, counts in live.counts.items()},
        "rejected": {view: dict(reasons) for view, reasons in live.rejected.items()},
        "views": {name: {"fingerprint": view.fingerprint, "batch_version": view.version} for name, view in live.views.items()},
        "repaired": {source: live.repaired.get(source) for source in live.cuts},
        "gaps": [gap.name for gap in done.gaps],
    }
    return Output(
        document,
        "\n".join(
            [
                f"publication {live.number} of release {live.release}",
                *map(_sentence, live.counts.items()),
                *_repairs(live.repaired),
            ]
        ),
    )


def _sentence(counted: tuple[str, Counts]) -> str:
    source, counts = counted
    quarantined = sum(counts.quarantined.values())
    return f"{source}: {counts.events} events, {counts.duplicates} duplicates and {quarantined} rejects below the cut"


def _repairs(repaired: Mapping[str, int]) -> Iterator[str]:
    for source, number in repaired.items():
        if number:
            yield f"{source}: {number} copies that came beyond the horizon had counted as events until now"
