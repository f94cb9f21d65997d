"""Where a reader gets the definitions of a release."""

from dataclasses import dataclass
from typing import Final, Protocol

from tandem.ledger.publish.releases import Release
from tandem.views.project.project import Project, load_files


class Definitions(Protocol):
    """The definitions of releases, for any number of threads."""

    def project(self, release: Release) -> Project:
        """The project that a release defines. Raises DefinitionError, ReadFailed."""
        ...

    def live(self, release: int) -> None:
        """Release what only other releases need."""
        ...


@dataclass(frozen=True)
class InProcess:
    """Definitions that this process imports itself: for a program of the project's own user."""

    def project(self, release: Release) -> Project:
        """See Definitions."""
        return load_files(release.files)

    def live(self, release: int) -> None:
        """Modules that were imported stay."""


IN_PROCESS: Final = InProcess()
