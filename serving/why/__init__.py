"""Why an answer is what it is: the events behind a row, read from the log's tables and computed again by the plain oracle.

why.py          the question, the row, what each layer and source gives, the comparison
evidence.py     of one source: the events that count, duplicates, rejects, near misses
part_log.py     the log of a source up to the answer's position
row_groups.py   the events table, and of it only the row groups that can hold such events
topic_tail.py   records that the events table does not have
finality.py     since when the row is final, and what may still change it
document.py     all of it as JSON
receipt.py      what an answer was, in a line; refold.py computes it again
changed.py      why a row changed between two moments.py
"""
