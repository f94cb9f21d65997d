"""Sources and views as SQL: a project's definitions.sql, compiled to the Python that says the same.

* `statements`: the text as words with places; `literals`: constants, lengths of time and calls in WITH.
* `column_types`, `create_source`: CREATE SOURCE as an event type and a Source.
* `aggregates`, `group_windows`, `create_view`: CREATE VIEW as a View.
* `group_dialects`, `translate`: queries of Flink, Spark and PostgreSQL in the grammar of CREATE VIEW.
* `compile`: all statements as a module.

Expressions are taken as they are written: only DuckDB parses them, as it does those of definitions.py. sqlglot finds the words.
It takes long to import, so nothing imports this package unless there is SQL to read.
"""
