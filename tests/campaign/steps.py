"""The campaign's steps without a fault: the states that a fault needs, and the way back from them."""

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from tests.campaign import project
from tests.campaign.commands import Tandem, wait_until
from tests.campaign.messages import Ended
from tests.campaign.server import NoAnswer, Server
from tests.campaign.tally import Tally

BACK_S: Final = 600.0
"""How long a project may take to be well again by itself. It takes seconds to a minute; a machine that has ten times as
much to do as it can, as long as this."""
_WELL: Final = ("running", "behind")
_PARTS: Final = ("broker", "speed", "serve")


@dataclass
class Steps:
    """The project's releases, and whether it is well."""

    tandem: Tandem
    server: Server
    tally: Tally
    random_: random.Random
    editions: dict[int, int] = field(default_factory=lambda: {1: 0})
    """The least amount that `per_minute` counts, by release."""
    parts: Sequence[str] = _PARTS

    def status(self) -> Ended:
        """What `tandem status` reports."""
        return self.tandem.run("status")

    def well(self) -> bool:
        """Whether the server answers and reports that every part works, as `tandem status` would once it had started."""
        try:
            states = {part["part"]: part["state"] for part in self.server.status()["parts"]}
        except NoAnswer:
            return False
        return all(states.get(part) in _WELL for part in self.parts)

    def back(self, after: str, condition: Callable[[], bool] | None = None) -> None:
        """Wait until the project is well again by itself; if it is not in time, count it and type `up`, as a person would."""
        if wait_until(lambda: (condition is None or condition()) and self.well(), seconds=BACK_S, every=1):
            return
        status = self.status()
        self.tally.found("manual interventions", why=f"not well {BACK_S:.0f} s after {after}", status=status.document)
        self.tandem.run("up", "--serve")

    def done(self, words: Sequence[str], reached: Callable[[], bool] | None = None) -> Ended:
        """Type a command again until it succeeds, or what it is for is `reached`; if that is not in time, count it."""
        deadline = time.monotonic() + BACK_S
        while True:
            ended = self.tandem.run(*words)
            if ended.code == 0 or (reached is not None and reached()):
                return ended
            if time.monotonic() > deadline:
                self.tally.found("manual interventions", why="typed again it still fails", words=words, out=ended.out[-1500:])
                return ended
            time.sleep(1)

    def history(self) -> list[dict[str, Any]]:
        """The publications, the live one first."""
        found: list[dict[str, Any]] = self.done(("history",)).document.get("publications", [])
        return sorted(found, key=lambda publication: -publication["publication"])

    def live(self) -> int:
        """The live release."""
        history = self.history()
        return int(history[0]["release"]) if history else 0

    def another_edition(self) -> int:
        """Give the definitions a meaning that no standing release has; the least amount of it."""
        least = self.random_.choice([least for least in range(1, 40) if least not in self.editions.values()] or [40])
        project.edit(self.tandem.project, least)
        return least

    def retire_others(self) -> None:
        """Retire all releases but the live one, so that those that stand do not grow in number."""
        for release in self._standing():
            self.done(("retire", str(release)), partial(self._is_gone, release))

    def ready(self) -> int:
        """A release that can be made live: one that stands, else another edition is applied."""
        found = [release for release, stage in self._standing().items() if stage == "ready" and release in self.editions]
        return max(found) if found else self.applied()

    def applied(self) -> int:
        """Apply another edition; the number of its release, 0 if that fails."""
        self.retire_others()
        least = self.another_edition()
        return self.note_edition(self.done(("apply",)).document, least)

    def note_edition(self, document: Mapping[str, Any], least: int) -> int:
        """Remember what a release counts, by what `apply` printed; the number of the release."""
        release = int(document.get("release") or 0)
        if release:
            self.editions.setdefault(release, least)
        return release

    def resume(self) -> None:
        """Have recomputes publish again after a rollback."""
        self.done(("resume",))

    def _is_gone(self, release: int) -> bool:
        return release not in self._standing()

    def _standing(self) -> dict[int, str]:
        """The stage of each release that is kept up beside the live one."""
        found = self.status().document.get("standing", ())
        return {one["release"]: one["stage"] for one in found if one["stage"] != "failed"}
