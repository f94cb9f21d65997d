"""Compact tables, delete what no retained publication uses, and vacuum. No other room deletes rows or files of tables."""
