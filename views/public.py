"""What a project's definitions are written with: `views` and `tandem` offer what is imported here, and nothing else.

A measure or a window is a line of its own registry.
"""

from views.decode.formats.avro import avro as avro
from views.decode.formats.csv import csv as csv
from views.decode.formats.protobuf import protobuf as protobuf
from views.measures.registry import *
from views.source.event import Event as Event
from views.source.event import Scale as Scale
from views.source.event import Unit as Unit
from views.source.record_filter import by_field as by_field
from views.source.record_filter import by_header as by_header
from views.source.schema_version import Version as Version
from views.source.source import Source as Source
from views.view import View as View
from views.windows.registry import *
