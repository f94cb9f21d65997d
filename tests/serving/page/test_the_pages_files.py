"""The page's files contain no data and never turn data into markup; vendored files are unchanged."""

import re
from hashlib import sha256
from pathlib import Path

import httpx
import pytest

from tandem.infra.folders import ROOT
from tandem.serving.http.routes.page import page_file
from tests.serving.http.served import Served
from tests.serving.world import World

FOLDER = ROOT / "serving" / "page"
OURS = [path for path in sorted(FOLDER.rglob("*")) if path.is_file() and "vendor" not in path.parts]
MARKUP = (
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|srcdoc"
    r"|\beval\(|new Function|setAttribute\(.on"
)


@pytest.mark.parametrize("path", OURS, ids=lambda path: path.relative_to(FOLDER).as_posix())
def test_no_text_becomes_markup(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.findall(MARKUP, text)
    # Nothing comes from elsewhere, and nothing is styled or run by an attribute.
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", text)
    assert not re.findall(r"<[a-z][^>]*\s(style|on[a-z]+)=", text)


def test_vendored_files_are_unchanged() -> None:
    folder = FOLDER / "vendor" / "uplot"
    told = dict(re.findall(r"^\| `(\S+)` \| `([0-9a-f]{64})` \|$", (folder / "README.md").read_text("utf-8"), re.MULTILINE))
    found = {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.name != "README.md"}
    assert told == found


def test_every_import_names_a_file() -> None:
    for path in FOLDER.rglob("*.js"):
        for name in re.findall(r'from "(\.[^"]+)"', path.read_text("utf-8")):
            file = (path.parent / name).resolve().relative_to(FOLDER)
            assert page_file(file.as_posix()) is not None, f"{path}: {name}"


@pytest.mark.anyio
async def test_only_the_pages_files_are_open(tmp_path: Path) -> None:
    served = Served(World(tmp_path))
    async with served.server.open(), served.another(None) as client:
        index = await client.get("/")
        policy = dict(part.strip().partition(" ")[::2] for part in index.headers["content-security-policy"].split(";"))
        assert (policy["default-src"], policy["script-src"], policy["style-src"]) == ("'none'", "'self'", "'self'")
        assert (policy["connect-src"], policy["frame-ancestors"], policy["form-action"]) == ("'self'", "'none'", "'none'")
        assert (index.headers["x-content-type-options"], index.headers["referrer-policy"]) == ("nosniff", "no-referrer")
        for name in re.findall(r'(?:src|href)="(/[^"]+)"', index.text):
            answer = await client.get(name)
            assert answer.status_code == 200, name
            again = await client.get(name, headers={"If-None-Match": answer.headers["etag"]})
            assert (again.status_code, again.content) == (304, b"")
        for name in (
            "none.js",
            "../http/page.py",
            "..%2Fhttp%2Fpage.py",
            "%2e%2e/http/page.py",
            "/etc/passwd",
            "lib",
            "vendor/uplot/README.md",
        ):
            answer = await client.get(httpx.URL(f"http://served/page/{name}"))
            assert answer.status_code == 404, name


@pytest.mark.anyio
async def test_me_lists_the_rights_of_a_token(tmp_path: Path) -> None:
    served = Served(World(tmp_path), {"max_rows": 7})
    secret = served.token("desk", may=("sql", "read"), views=["per_page"], rows=["page=/a"])
    async with served.client(secret) as client:
        found = (await client.get("/me")).json()
    expires = found.pop("expires")
    assert expires == "2026-11-02T12:00:00Z"
    assert found == {"name": "desk", "verbs": ["read", "sql"], "views": ["per_page"], "rows": ["page=/a"], "max_rows": 7}
