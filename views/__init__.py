"""What numbers mean: events, sources and views, and the pure functions that compute every answer.

Offered here is what a project's definitions are written with (views/public.py); the platform imports the modules themselves.
"""

from views import public
from views.public import *

# Type checkers read the imports above; they do not read this.
vars()["__all__"] = sorted(name for name in vars(public) if not name.startswith("_"))
