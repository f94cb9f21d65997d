"""A server's polls are requests that an object store charges for: `doctor` counts them for a day."""

import os
import shutil
from pathlib import Path

import pytest

from tandem.cli.doctor.polling import MANY
from tandem.infra.folders import ROOT
from tests.cli.doctor.looked import fine, wrong
from tests.infra.storage.s3 import a_bucket

WHOLE = ", or every 5 s while the server counts the whole log"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(ROOT / "examples" / "web", tmp_path / "web"))


def test_polls_of_a_folder_send_no_request(folder: Path) -> None:
    assert fine(folder, "polling") == "the tables are in a folder: a poll sends no request"


def test_polls_of_a_bucket_are_counted_and_the_fix_suffices(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with a_bucket() as (url, options):
        secret = {name: value for name, value in options.items() if "key" in name}
        for name, value in secret.items():
            monkeypatch.setenv(name.upper(), value)
        open_to_all = options.keys() - secret.keys()
        lines = ["[storage]", f'root = "{url}"', "[storage.options]", *(f'{name} = "{options[name]}"' for name in open_to_all)]
        (folder / "tandem.toml").write_text("\n".join([*lines, ""]))

        def polled_every(milliseconds: int) -> dict[str, dict[str, str]]:
            return {"environ": {**os.environ, "TANDEM_SERVING_POLL_MS": str(milliseconds)}}

        found = wrong(folder, "polling", MANY, **polled_every(50))
        assert found.what == f"a server sends up to about 10.4 million requests a day: it polls 3 tables every 50 ms{WHOLE}"
        assert found.fix is not None
        longer = int(found.fix.split("`serving.poll_ms` to ")[1].split()[0])
        assert fine(folder, "polling", **polled_every(longer)).endswith(f"it polls 3 tables every {longer} ms{WHOLE}")
        wrong(folder, "polling", MANY, **polled_every(longer - 1))

        monkeypatch.setenv("TANDEM_SERVING_HOT", "on")
        found = wrong(folder, "polling", MANY, **polled_every(100))
        assert found.what == (
            "a server sends up to about 11.8 million requests a day: it polls 3 tables at most twice every 100 ms, "
            f"and its hot tails 2 every 250 ms{WHOLE}"
        )
        assert found.fix is not None
        longer = int(found.fix.split("`serving.poll_ms` to ")[1].split()[0])
        assert fine(folder, "polling", **polled_every(longer)).endswith(
            f"twice every {longer} ms, and its hot tails 2 every {longer} ms{WHOLE}"
        )
        wrong(folder, "polling", MANY, **polled_every(longer - 1))
