"""One check of the doctor on a project's folder."""

import os
import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from tandem.cli.command.call import Call
from tandem.cli.doctor import CHECKS, look
from tandem.cli.doctor.check import FailedCheck, Finding
from tandem.cli.doctor.subject import Subject
from tests.serving.world import NOON

LATER = NOON + timedelta(days=1)


def looked(folder: Path, check: str, *, environ: Mapping[str, str] | None = None, now=LATER) -> list[Finding]:
    """What one check finds."""
    (chosen,) = (each for each in CHECKS if each.name == check)
    environ = os.environ if environ is None else environ
    return look(chosen, Subject(Call(folder, json=True, debug=False, environ=environ), now))


def fine(folder: Path, check: str, **how) -> str:
    """What it finds where all is well."""
    (found,) = looked(folder, check, **how)
    assert (found.outcome, found.fix) == ("ok", None), found
    return found.what


def wrong(folder: Path, check: str, problem: FailedCheck | None = None, **how) -> Finding:
    """The only thing that it finds: this problem, or without one that the check cannot be made."""
    (found,) = looked(folder, check, **how)
    (chosen,) = (each for each in CHECKS if each.name == check)
    problem = problem or chosen.hindered
    assert problem in (chosen.hindered, *chosen.problems)
    assert found.outcome == problem.outcome, found
    assert re.fullmatch(re.sub(r"\\{\w+\\}", ".+", re.escape(problem.fix)), found.fix or ""), found
    return found
