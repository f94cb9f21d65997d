"""What the project's processes say: a file of JSON lines for each part in `logs` of the state folder, bounded, read again."""
