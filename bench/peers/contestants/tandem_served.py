"""Tandem with its server, which answers look-ups over HTTP: by commits, or with the hot tail before them."""

import sys
from collections.abc import Mapping
from functools import partial
from typing import Final, Literal

from tandem.bench.peers.contestant import MARKED, Contestant, ContestantCommand, Resources, Setting
from tandem.bench.peers.contestants import tandem
from tandem.bench.peers.outputs import VIEW, ServedOutput
from tandem.bench.peers.provided import script

_UNLIMITED: Final = {"serving.rate": "1000000", "serving.burst": "1000000"}
"""A client that looks every 10 ms asks more often than a token may by default."""
Reading = Literal["http_reader", "changes_reader"]
"""The program of the client: it looks every 10 ms, or follows the stream of changes."""


def command(chosen: Mapping[str, str], setting: Setting) -> ContestantCommand:
    """The speed layer and the server of a project with the view."""
    variables = {f"TANDEM_{name.replace('.', '_').upper()}": value for name, value in chosen.items()}
    words = (sys.executable, script("tandem_served"), str(tandem.project(setting)), str(setting.folder / "address"))
    return ContestantCommand(words, {**tandem.environment(setting), **variables})


def reader(program: Reading, setting: Setting) -> ContestantCommand:
    """A client of the server."""
    token = tandem.state(setting) / "access" / "first.token"
    return ContestantCommand((sys.executable, script(program), str(setting.folder / "address"), str(token), VIEW, MARKED))


def _settings(chosen: Mapping[str, str], given: Resources) -> Mapping[str, str]:
    return {**tandem.settings(given), **chosen}


def served(name: str, by: Reading = "http_reader", **chosen: str) -> Contestant:
    """Tandem with its server and these settings; `__` stands for the dot in their names."""
    named = _UNLIMITED | {key.replace("__", "."): value for key, value in chosen.items()}
    return Contestant(
        name=name,
        version=tandem.version,
        settings=partial(_settings, named),
        command=partial(command, named),
        output=lambda setting: ServedOutput(tandem.state(setting)),
        reader=partial(reader, by),
        ready=tandem.ready,
        asked=True,
    )


TANDEM_HTTP: Final = served("tandem-http", serving__hot="off")
TANDEM_HOT: Final = served("tandem-hot", serving__hot="on")
"""What `tandem up --serve` has by default."""
TANDEM_CHANGES: Final = served("tandem-hot-changes", "changes_reader", serving__hot="on")
SERVED: Final = (TANDEM_HTTP, TANDEM_HOT, TANDEM_CHANGES)
