"""Which sources a principal may know of, and to which it may send events."""

from collections.abc import Mapping

from tandem.serving.access.rights import Principal
from tandem.serving.http.protocol.problem import Problem
from tandem.serving.http.queries.permitted_views import readable
from tandem.views.errors import listed
from tandem.views.project.project import Project
from tandem.views.source.source import Source
from tandem.views.view import View


def known(project: Project, principal: Principal) -> dict[str, Source]:
    """The sources of whose views the principal may read some, or to which events may be sent."""
    seen = {view.source.name for view in read_of(project, principal)} | open_to(project, principal).keys()
    return {name: one for name, one in project.sources.items() if name in seen}


def read_of(project: Project, principal: Principal) -> list[View]:
    """The views that the principal may read, by whatever verb."""
    return list(readable(project.views, principal).values()) if principal.rights.verbs & {"read", "sql"} else []


def open_to(project: Project, principal: Principal) -> dict[str, Source]:
    """The sources to which the principal may send events."""
    views = project.views.values()
    return {
        name: source
        for name, source in project.sources.items()
        if principal.rights.may_send(view for view in views if view.source.name == name)
    }


def source_for(project: Project, name: str, among: Mapping[str, Source]) -> Source:
    """A source that is among those. Raises Problem 404, the same for a forbidden source and an absent one."""
    if name not in among:
        raise Problem(404, f"no source {name!r}; sources: {listed(name, among)}", code="source-unknown")
    return project.sources[name]
