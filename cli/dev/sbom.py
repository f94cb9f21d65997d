"""Writes a bill of materials (CycloneDX 1.6, JSON) of the packages and jars that the locks pin.

It runs in the environment of the build backend, which has the library of CycloneDX: `python -I cli/dev/sbom.py ROOT VERSION TIME
FILE`, with the time in Unix seconds.

The same locks give the same bytes. The bill has neither packages that only tests need nor those of the operating system.
"""

import re
import sys
import tomllib
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

_PINNED: Final = re.compile(r"^([a-z0-9._-]+)==([^ ;\\]+)", re.IGNORECASE)
_HASH: Final = re.compile(r"--hash=sha256:([0-9a-f]{64})")
_EXTRA: Final = re.compile(r"\[.*?\]")
_NAMESPACE: Final = uuid.UUID("5a4c2c1e-7d0a-5b3e-9f52-2f6a4f0f7c11")


@dataclass
class LockedPackage:
    """A package of a lock: its version, the hashes of its files, and the packages that need it."""

    name: str
    version: str
    hashes: list[str] = field(default_factory=list)
    needed_by: set[str] = field(default_factory=set)


def packages_of(lock: str) -> dict[str, LockedPackage]:
    """The packages of a lock as `uv pip compile` writes it, by name."""
    packages: dict[str, LockedPackage] = {}
    package = LockedPackage("", "")
    for line in lock.splitlines():
        if start := _PINNED.match(line):
            package = packages.setdefault(start[1], LockedPackage(start[1], start[2]))
        package.hashes += _HASH.findall(line)
        if line.lstrip().startswith("#") and (parent := line.replace("# via", "").strip("# ")):
            package.needed_by.add(_EXTRA.sub("", parent))
    return packages


def closure(packages: Mapping[str, LockedPackage], roots: Iterable[str]) -> set[str]:
    """The names of the roots and of all packages that they need."""
    names = set(roots) & set(packages)
    while more := {name for name, package in packages.items() if name not in names and package.needed_by & names}:
        names |= more
    return names


def main(root: Path, version: str, time: float, out: Path) -> None:
    """Write the bill of materials of a checkout."""
    project = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]
    roots = {re.split(r"[ \[<>=!~;]", line)[0] for line in project["dependencies"]}
    tandem = Component(
        type=ComponentType.APPLICATION,
        name="tandem",
        version=version,
        bom_ref="tandem",
        purl=PackageURL("pypi", None, "tandem", version),
    )
    bom = Bom()
    bom.metadata.component = tandem
    bom.metadata.timestamp = datetime.fromtimestamp(time, UTC)
    locks = root / "infra" / "locks"
    platform = packages_of((locks / "requirements.lock").read_text("utf-8"))
    names = closure(platform, roots)
    parts = {name: _package(platform[name], "platform") for name in sorted(names)}
    bom.register_dependency(tandem, [parts[name] for name in sorted(names & roots)])
    for name, part in parts.items():
        bom.components.add(part)
        bom.register_dependency(part, [parts[child] for child in sorted(names) if name in platform[child].needed_by])
    for use, lock in (("java", "java.lock"), ("airflow", "airflow.lock")):
        for package in packages_of((locks / lock).read_text("utf-8")).values():
            bom.components.add(_package(package, use))
    for jar in jars((locks / "ivy.xml").read_text("utf-8"), (locks / "jars.lock").read_text("utf-8")):
        bom.components.add(jar)
    bom.serial_number = uuid.uuid5(_NAMESPACE, " ".join(sorted(str(part.bom_ref) for part in bom.components)) + version)
    text = make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=1)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        sys.exit(f"the bill of materials is not valid: {error}")
    out.write_text(text, "utf-8")


def jars(ivy: str, lock: str) -> Iterator[Component]:
    """The jars that ivy.xml names, each with its hash in the lock."""
    hashes = {file: digest for digest, file in (line.split() for line in lock.splitlines())}
    for jar in ET.fromstring(ivy).iter("dependency"):  # noqa: S314 - our own file
        group, name, version = jar.attrib["org"], jar.attrib["name"], jar.attrib["rev"]
        use = jar.attrib["conf"].split("->")[0]
        yield Component(
            type=ComponentType.LIBRARY,
            group=group,
            name=name,
            version=version,
            bom_ref=f"{use}/{group}/{name}@{version}",
            purl=PackageURL("maven", group, name, version),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=hashes[f"{use}/{name}-{version}.jar"])],
            properties=[Property(name="tandem:use", value=use)],
        )


def _package(package: LockedPackage, use: str) -> Component:
    return Component(
        type=ComponentType.LIBRARY,
        name=package.name,
        version=package.version,
        bom_ref=f"{use}/{package.name}@{package.version}",
        purl=PackageURL("pypi", None, package.name, package.version),
        # One for each file of this version: wheels and the source.
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in package.hashes],
        properties=[Property(name="tandem:use", value=use)],
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]), Path(sys.argv[4]))
