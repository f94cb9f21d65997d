"""The campaign's command: runs it, prints the result, and how to repeat it and where the evidence is."""

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.campaign import tally
from tests.campaign.campaign import Abandoned, Campaign
from tests.campaign.disturbance.machine import private_mounts

_MOUNTS = "--may-mount"


def main(arguments: Sequence[str]) -> int:
    """Run the command; 1 if anything was found or the campaign could not go on."""
    asked = _parser().parse_args(arguments)
    if not asked.may_mount and (words := private_mounts()):
        os.execvp(words[0], [*words, sys.executable, "-m", "tests.campaign", *arguments, _MOUNTS])
    seed = random.SystemRandom().randrange(1 << 31) if asked.seed is None else asked.seed
    folder = Path(asked.folder or tempfile.mkdtemp(prefix="tandem-campaign-"))
    folder.mkdir(parents=True, exist_ok=True)
    sys.stderr.write(f"campaign of {asked.minutes:g} minutes, seed {seed}, evidence in {folder}\n")
    # Whoever ends it, what it has started ends with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    campaign = Campaign(folder, asked.minutes * 60, seed, asked.may_mount, _say)
    try:
        found = campaign.run()
    except Abandoned as error:
        sys.stderr.write(f"{error}; the evidence is in {folder}\n")
        return 1
    document = found.document(seed=seed, minutes=asked.minutes)
    (folder / "result.json").write_text(json.dumps(document, indent=1) + "\n")
    sys.stdout.write("\n".join(tally.lines(document)) + "\n")
    if not found.held:
        repeat = f"./tandem test --campaign {asked.minutes:g} --seed {seed}"
        sys.stderr.write(f"repeat it with `{repeat}`; lines with FOUND in {folder}/evidence.jsonl have the facts\n")
        return 1
    if asked.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tandem test --campaign", description=__doc__)
    parser.add_argument("minutes", type=float, help="how long faults are drawn")
    parser.add_argument("--seed", type=int, default=None, help="draws faults and events (default: another one each time)")
    parser.add_argument("--folder", default=None, help="where project and evidence are kept (default: a temporary one)")
    parser.add_argument(_MOUNTS, action="store_true", help=argparse.SUPPRESS)
    return parser
