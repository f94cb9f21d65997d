"""The commands of docs/object-store.md that move a project: from a folder to a bucket and back, answers stay the same."""

import os
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.demo.bucket import own_bucket
from tandem.infra.folders import ROOT
from tests.documented import Command, steps
from tests.end_to_end.test_readme import typed
from tests.end_to_end.test_recover import answered

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.timeout(1800)]

QUERY = Command("./tandem query channels --project my_shop")


def test_a_project_moves_to_a_bucket_and_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tandem").symlink_to(ROOT / "tandem")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "replaced by those of the bucket")
    lines = [step.line for step in steps("object-store.md") if isinstance(step, Command) and "my_shop" in step.line]
    (begins,) = [number for number, line in enumerate(lines) if " import " in line]
    assert {line.split()[1] for line in lines} >= {"archive", "down", "export", "import", "up", "recompute"}

    def done(line: str, place: str, **variables: str) -> None:
        told = "".join(f"{name}='{value}' " for name, value in variables.items())
        found = typed(f"{told}{line.replace('/mnt/moving', str(tmp_path / place))}", tmp_path)
        assert found.returncode == 0, f"{line}\n{found.stdout}\n{found.stderr}"

    with own_bucket(os.environ, tmp_path / "s3.log") as there:
        bucket = {name: value for name, value in there.items() if name.startswith("TANDEM_")}
        try:
            for line in (
                "./tandem init my_shop",
                "./tandem up --project my_shop",
                "./tandem feed my_shop/orders.jsonl --source orders --project my_shop",
            ):
                done(line, "none")
            before: Any = answered(QUERY, tmp_path, None)
            for line in lines[:begins]:
                done(line, "to")
            for line in lines[begins:]:
                done(line, "to", **bucket)
            told = "".join(f"{name}='{value}' " for name, value in bucket.items())
            assert answered(Command(f"{told}{QUERY.line}"), tmp_path, before) == before
            for line in lines[:begins]:
                done(line, "back", **bucket)
            back = {"TANDEM_STORAGE_ROOT": str(tmp_path / "back-again")}
            for line in lines[begins:]:
                done(line, "back", **back)
            again = Command(f"TANDEM_STORAGE_ROOT='{back['TANDEM_STORAGE_ROOT']}' {QUERY.line}")
            assert answered(again, tmp_path, before) == before
        finally:
            typed("./tandem down --project my_shop", tmp_path)
