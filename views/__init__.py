"""What numbers mean: events, sources and views, and the pure functions that compute every answer.

This module exports what a project's definitions use (views/public.py); the platform imports the modules themselves.
"""

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tandem.views.public import *


def __getattr__(name: str) -> Any:
    """Import what is offered when a name is first used: most modules of the platform need no more than `tandem.views.errors`."""
    if name == "__all__" or not (name.startswith("_") or importlib.util.find_spec(f"{__name__}.{name}")):
        public = vars(importlib.import_module("tandem.views.public"))
        offered = sorted(one for one in public if not one.startswith("_"))
        globals().update({one: public[one] for one in offered}, __all__=offered)
    if name in globals():
        return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
