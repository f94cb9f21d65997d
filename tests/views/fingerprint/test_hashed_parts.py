"""A fingerprint is the same wherever it is taken; test_every_edit.py says which edits change it."""

import os
import subprocess
import sys
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

from tandem.views.fingerprint.code_dependencies import code_of_classes
from tandem.views.fingerprint.hashed_parts import decoder_fingerprint, fingerprint
from tandem.views.project.project import load_files
from tandem.views.source.event import Event
from tests.stack import PYTHONPATH
from tests.views.edited import edited

ROOT = Path(__file__).parents[3]


def test_packages_count_by_their_version(tmp_path: Path) -> None:
    """Of a package that the project's code reaches, the version counts; of Python's own modules nothing does."""
    code = code_of_classes([edited(tmp_path).sources["orders"].event])
    assert {key for key in code if "==" in key} == {"numpy=="}
    assert code["numpy=="].value == version("numpy")
    assert not [key for key in code if "unused" in key.casefold() or "OTHER" in key]


def test_a_fingerprint_is_the_same_in_every_process_and_folder(tmp_path: Path) -> None:
    """Nothing of a process or a place, such as the order of a set, an address or a path, is in a fingerprint."""
    loaded = edited(tmp_path)
    script = (
        "import sys; from tandem.views.fingerprint.hashed_parts import *; "
        "from tandem.views.project.project import load; found = load(sys.argv[1]); "
        "print(decoder_fingerprint(found.sources['orders']), fingerprint(found.views['sales']), end='')"
    )
    environment = os.environ | {"PYTHONHASHSEED": "1", "PYTHONPATH": PYTHONPATH}
    run = subprocess.run([sys.executable, "-c", script, tmp_path], env=environment, capture_output=True, text=True, check=True)
    stored = load_files(loaded.files)
    assert run.stdout == f"{decoder_fingerprint(stored.sources['orders'])} {fingerprint(stored.views['sales'])}"


def test_an_event_type_outside_a_project_is_covered_by_its_own_module() -> None:
    """A test's event type has a fingerprint too, which covers its methods."""

    class Ping(Event):
        at: datetime

        def __post_init__(self) -> None:
            if self.at.year < EARLIEST:
                raise ValueError("too early")

    code = code_of_classes([Ping])
    assert len(code) == 2
    assert hex(EARLIEST) in "".join(part.value for part in code.values())


EARLIEST = 1990
