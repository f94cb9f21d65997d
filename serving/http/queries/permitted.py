"""Which views and sources a principal may know of, read, and send events to."""

from collections.abc import Mapping

from tandem.serving.access.rights import Principal
from tandem.serving.http.protocol.problem import Problem
from tandem.views.errors import listed
from tandem.views.project.project import Project
from tandem.views.source.source import Source
from tandem.views.source.united_source import all_sources, names_of
from tandem.views.view import View


def readable(views: Mapping[str, View], principal: Principal) -> dict[str, View]:
    """The views of which the principal may read rows."""
    return {name: view for name, view in views.items() if principal.rights.bound(view) is not None}


def view_for(views: Mapping[str, View], name: str, principal: Principal) -> View:
    """A view that the principal may read. Raises Problem 404, the same for a forbidden view and an absent one."""
    found = views.get(name)
    if found is None or principal.rights.bound(found) is None:
        raise Problem(404, f"no view {name!r}; views: {listed(name, readable(views, principal))}", code="view-unknown")
    return found


def may_see(views: Mapping[str, View], name: str, principal: Principal) -> bool:
    """Whether the principal may know of a view of this name, of any release; `views` are the live ones.

    A principal that is restricted to rows may only if the live view of that name has the bound keys: another release's may not.
    """
    rights = principal.rights
    if rights.views is not None and name not in rights.views:
        return False
    return not rights.rows or (name in views and rights.bound(views[name]) is not None)


def known(project: Project, principal: Principal) -> dict[str, Source]:
    """The sources of whose views the principal may read some, or to which events may be sent."""
    seen = {*all_sources(view.source for view in read_of(project, principal))} | open_to(project, principal).keys()
    return {name: one for name, one in project.sources.items() if name in seen}


def read_of(project: Project, principal: Principal) -> list[View]:
    """The views that the principal may read, by whatever verb."""
    return list(readable(project.every_view, principal).values()) if principal.rights.verbs & {"read", "sql"} else []


def open_to(project: Project, principal: Principal) -> dict[str, Source]:
    """The sources to which the principal may send events."""
    views = project.every_view.values()
    return {
        name: source
        for name, source in project.sources.items()
        if principal.rights.may_send(view for view in views if name in names_of(view.source.name))
    }


def source_for(project: Project, name: str, among: Mapping[str, Source]) -> Source:
    """A source that is among those. Raises Problem 404, the same for a forbidden source and an absent one."""
    if name not in among:
        raise Problem(404, f"no source {name!r}; sources: {listed(name, among)}", code="source-unknown")
    return project.sources[name]
