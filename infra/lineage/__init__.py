"""OpenLineage events: which run read and wrote which data sets, sent to a server or a file if the settings name one."""
