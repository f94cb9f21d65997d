"""Tandem's public package: what a project's definitions are written with.

    from tandem import Event, Source, View, count, tumbling

`tandem.client` answers in a program, `tandem.testing` in a project's tests.
"""

from tandem.views import public
from tandem.views.public import *

# Type checkers read the imports above; they do not read this.
vars()["__all__"] = sorted(name for name in vars(public) if not name.startswith("_"))
