"""Compact tables, delete what no retained publication uses, and vacuum. Of other rooms only erase deletes rows or files."""
