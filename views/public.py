"""What a project's definitions use: `tandem` exports exactly what this module imports.

A measure, a window or a decoder is a line of its own registry.
"""

from tandem.views.alert import Alert as Alert
from tandem.views.composite.rollup import rollup as rollup
from tandem.views.composite.table import Table as Table
from tandem.views.measures.measure_registry import *
from tandem.views.sinks.registry import *
from tandem.views.sinks.sink import Sink as Sink
from tandem.views.source.event import Event as Event
from tandem.views.source.event import Name as Name
from tandem.views.source.event import Scale as Scale
from tandem.views.source.event import Unit as Unit
from tandem.views.source.format import entries as entries
from tandem.views.source.formats.registry import *
from tandem.views.source.record_filter import by_field as by_field
from tandem.views.source.record_filter import by_header as by_header
from tandem.views.source.schema_version import Version as Version
from tandem.views.source.source import Source as Source
from tandem.views.source.time_notation import Epoch as Epoch
from tandem.views.source.time_notation import Format as Format
from tandem.views.source.time_notation import Zone as Zone
from tandem.views.topic_names import pattern as pattern
from tandem.views.view import View as View
from tandem.views.windows.registry import *

# Type checkers read the imports above; they do not read this.
vars()["__all__"] = sorted(name for name in vars() if not name.startswith("_"))

# The names of SQL for the same functions. `from tandem import *` leaves Python's own sum, min and max alone.
avg, max, min, sum = mean, maximum, minimum, total  # noqa: A001, F405
