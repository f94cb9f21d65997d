"""The decoders that definitions can name: a line each. `views` and `tandem` offer what is imported here."""

from tandem.views.source.formats.access_logs.apache import apache as apache
from tandem.views.source.formats.access_logs.apache_combined import apache_combined as apache_combined
from tandem.views.source.formats.access_logs.aws_logs import aws_alb as aws_alb
from tandem.views.source.formats.access_logs.aws_logs import aws_elb as aws_elb
from tandem.views.source.formats.access_logs.aws_logs import cloudfront as cloudfront
from tandem.views.source.formats.access_logs.nginx import nginx as nginx
from tandem.views.source.formats.access_logs.nginx_json import nginx_json as nginx_json
from tandem.views.source.formats.avro import avro as avro
from tandem.views.source.formats.change_events.debezium import debezium as debezium
from tandem.views.source.formats.csv import csv as csv
from tandem.views.source.formats.csv import tsv as tsv
from tandem.views.source.formats.json import json as json
from tandem.views.source.formats.protobuf import protobuf as protobuf
from tandem.views.source.formats.syslog import syslog as syslog
