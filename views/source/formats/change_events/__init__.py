"""Change events of databases, as Debezium writes them."""
