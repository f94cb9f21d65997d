"""Tandem's public package: what a project's definitions are written with.

    from tandem import Event, Source, View, count, tumbling

`tandem.client` answers in a program, `tandem.testing` in a project's tests. The platform's own packages lie beside them: in a
checkout as links to the folders of its top level.
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tandem.views.public import *


def __getattr__(name: str) -> Any:
    """Import what is offered when a name is first used, because every module of the platform imports this package."""
    if name == "__all__" or not (name.startswith("_") or importlib.util.find_spec(f"{__name__}.{name}")):
        public = vars(importlib.import_module("tandem.views.public"))
        globals().update({one: public[one] for one in ("__all__", *public["__all__"])})
        if name in public:  # a second name of something offered, which `import *` leaves out
            globals()[name] = public[name]
    if name in globals():
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
