"""`tandem token`: a secret is printed once, and what would show nothing is refused while somebody can still put it right."""

import json
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.__main__ import main
from tests.serving.world import World


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return World(tmp_path_factory.mktemp("world")).folder


def run(project: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    code = main(["token", *arguments, "--project", str(project), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_a_token_is_made_listed_and_revoked(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, made = run(project, capsys, "create", "desk", "--may", "read", "--view", "per_page", "--row", "page=/a")
    assert code == 0
    secret = made.pop("secret")
    assert secret.startswith("tandem_")
    code, found = run(project, capsys, "list")
    assert found == {"tokens": [made]}
    assert made["may"] == ["read"]
    assert main(["token", "list", "--project", str(project)]) == 0
    shown = capsys.readouterr().out
    assert "desk" in shown
    assert "page=/a" in shown
    assert secret not in shown
    assert run(project, capsys, "revoke", "desk") == (0, {"revoked": "desk"})
    assert run(project, capsys, "list") == (0, {"tokens": []})


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["create"], "name the token: `tandem token create NAME`"),
        (["create", "x"], "without a verb"),
        (["create", "x", "--may", "reed"], "unknown right 'reed'; use read"),
        (["create", "x", "--may", "read", "--view", "per_pag"], "no view 'per_pag'; views: per_page"),
        (["create", "x", "--may", "read", "--row", "city=OSLO"], "no view has the keys city=OSLO"),
        (["revoke", "x"], "no token 'x'"),
        (["revoke", "x", "--may", "read"], "accepts only a name, not --may"),
        (["list", "x"], "does not accept NAME"),
    ],
)
def test_a_refused_token_command_is_one_sentence(
    project: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], sentence: str
) -> None:
    code, found = run(project, capsys, *arguments)
    assert code == 1
    assert sentence in found["error"]
