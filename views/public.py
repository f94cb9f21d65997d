"""What a project's definitions use: `views` and `tandem` export exactly what this module imports.

A measure, a window or a decoder is a line of its own registry.
"""

from views.measures.registry import *
from views.source.event import Event as Event
from views.source.event import Scale as Scale
from views.source.event import Unit as Unit
from views.source.formats.registry import *
from views.source.record_filter import by_field as by_field
from views.source.record_filter import by_header as by_header
from views.source.schema_version import Version as Version
from views.source.source import Source as Source
from views.view import View as View
from views.windows.registry import *
