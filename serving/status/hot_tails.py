"""How the hot tail of each source stands, as its process reports it in the state folder."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tandem.infra.process import hot_report, pulse
from tandem.infra.process.hot_report import HotSource
from tandem.infra.settings import Settings
from tandem.serving.status.part_state import SPEED

_SILENT_S: Final = 10.0
"""Seconds without a report after which a hot tail counts as standing aside; while it loads identities it reports nothing."""
_UNREPORTED: Final = (
    "its process has not reported on this source yet: it loads identities, or cannot read the live release (see the server's log)"
)
_NOT_RUNNING: Final = "no process of hot tails runs on this machine; `tandem serve` starts one"


@dataclass(frozen=True)
class HotTailState:
    """How the hot tail of one source stands.

    Args:
        aside: why answers are those of commits; None while it follows the log.
        views_aside: the views whose answers are those of commits because they are too heavy, with what each needs.
        ahead: the number of offsets that it counts beyond the commits, as of its report.
        compared: comparisons with commits that took its place, of one view each.
        mismatched: rows that differed in them, which must be 0.
        bytes: about the bytes of memory that it uses.
    """

    aside: str | None
    views_aside: Mapping[str, str] = field(default_factory=dict)
    ahead: int = 0
    compared: int = 0
    mismatched: int = 0
    bytes: int = 0

    def to_json(self) -> dict[str, Any]:
        """As a JSON document."""
        return dict(vars(self))

    def problems(self, source: str) -> list[str]:
        """What a person has to know of it, as sentences."""
        found = [] if self.aside is None else [f"{source}: the hot tail stands aside: {self.aside}"]
        found += [
            f"{source}: view '{view}' stands aside from the hot tail: {why}; its answers are those of commits"
            for view, why in self.views_aside.items()
        ]
        if self.mismatched:
            found.append(
                f"{source}: {self.mismatched} rows of the hot tail differed from the commits that followed; set "
                'serving.hot to "off" and report this as a defect'
            )
        return found


def why_not(settings: Settings) -> str | None:
    """Why a server that starts now has no hot tails, as a clause; None if it has.

    Their process runs the project's code, which a server itself never does. So by default it is only there where the speed layer
    has run that code, on this machine and from this state folder.
    """
    if settings.serving.hot == "off":
        return 'serving.hot is "off"'
    if settings.serving.hot == "on":
        return None
    if pulse.read(settings.folder, SPEED) is None:
        return "the speed layer has not run on this machine from this state folder"
    return None


def hot_tails(
    settings: Settings, release: int | None, sources: Iterable[str], *, clock: Callable[[], float] = time.monotonic
) -> dict[str, HotTailState | None]:
    """The hot tail of each source of the live release; None if no process runs, unless `serving.hot` is on."""
    found = hot_report.read(settings.folder)
    if found is None:
        return dict.fromkeys(sources, HotTailState(_NOT_RUNNING) if settings.serving.hot == "on" else None)
    now = clock()
    return {name: _state(None if release is None else found.source(release, name), now) for name in sources}


def _state(known: HotSource | None, now: float) -> HotTailState:
    if known is None:
        return HotTailState(_UNREPORTED)
    why, silent = known.aside, now - known.at
    if why is None and not 0 <= silent <= _SILENT_S:
        why = f"its process has not reported for {silent:.0f} s"
    if why is None and known.full:
        why = "it has reached serving.hot_mb and waits for the next commit"
    return HotTailState(why, known.views_aside, known.ahead, known.compared, known.mismatched, known.nbytes)
