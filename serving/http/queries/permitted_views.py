"""Which views a principal may know of and read."""

from collections.abc import Mapping

from tandem.serving.access.rights import Principal
from tandem.serving.http.protocol.problem import Problem
from tandem.views.errors import listed
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
