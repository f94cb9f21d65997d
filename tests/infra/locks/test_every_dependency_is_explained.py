"""docs/dependencies.md lists each dependency of pyproject.toml once, with the licence that the package itself names."""

import re
import tomllib
from importlib.metadata import metadata

import pytest
from packaging.requirements import Requirement

from tandem.infra.folders import ROOT

DOCUMENT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PAGE = (ROOT / "docs" / "dependencies.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))
# As packages write them, and as the page does.
FAMILIES = {"apache": "Apache-2.0", "bsd": "BSD", "mit": "MIT", "mpl": "MPL-2.0", "lgpl": "LGPL", "lesser": "LGPL"}


def rows(section: str) -> dict[str, str]:
    """The last column of each package's row."""
    return dict(re.findall(r"^\| `([a-z0-9-]+)` \|.*\| ([^|]+) \|$", SECTIONS[section], re.MULTILINE))


def listed(lines: list[str]) -> list[str]:
    return sorted(Requirement(line).name for line in lines)


def test_the_page_lists_every_dependency() -> None:
    assert sorted(rows("What the platform imports")) == listed(DOCUMENT["project"]["dependencies"])
    assert sorted(rows("What development needs")) == listed(DOCUMENT["dependency-groups"]["dev"])
    others = [*DOCUMENT["dependency-groups"]["airflow"], *DOCUMENT["build-system"]["requires"]]
    others += [line for extra in DOCUMENT["project"]["optional-dependencies"].values() for line in extra]
    assert [name for name in listed(others) if f"`{name}`" not in PAGE] == []


LICENCES = rows("What the platform imports") | rows("What development needs")


@pytest.mark.parametrize("name", LICENCES)
def test_the_licence_is_that_of_the_package(name: str) -> None:
    found, licence = metadata(name), LICENCES[name]
    classifiers = [one for one in found.get_all("Classifier") or [] if one.startswith("License ::")]
    said = " ".join([*(found[name] for name in ("License-Expression", "License") if name in found), *classifiers]).casefold()
    families = {family for word, family in FAMILIES.items() if re.search(rf"\b{word}", said)}
    if not families:
        pytest.skip(f"{name} names no licence in its metadata")
    assert any(family in licence for family in families), f"{name}: {licence} and {said[:80]}"


def test_texts_written_by_hand_exist() -> None:
    paths = re.findall(r"^\| `([a-z_/.]+)`", SECTIONS["Written here although a package has it"], re.MULTILINE)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
