"""The files of tables, through one port (`storage.py`). No other module opens, lists or deletes a table's file.

`local.py` is a folder of this machine, `object_store.py` a bucket; `resolve.py` finds the storage of an address, `mounts.py`
recognizes network file systems.
"""
