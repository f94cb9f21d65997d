"""The decoders that definitions can name: a line each. `views` and `tandem` offer what is imported here."""

from views.source.formats.apache_combined import apache_combined as apache_combined
from views.source.formats.avro import avro as avro
from views.source.formats.csv import csv as csv
from views.source.formats.json import json as json
from views.source.formats.nginx_json import nginx_json as nginx_json
from views.source.formats.protobuf import protobuf as protobuf
from views.source.formats.syslog import syslog as syslog
