"""OpenLineage events: which run made which data sets of which, told to a server or a file where the settings ask for it."""
