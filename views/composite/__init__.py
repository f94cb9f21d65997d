"""Views that are made of other views: rollups, tables, views of several sources or definitions."""
