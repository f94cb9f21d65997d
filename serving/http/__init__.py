"""Answers over HTTP: `tandem serve`. A question passes these modules, in this order:

    listener.py, requests/gate.py      accept the connection, authenticate the caller, check rights and limits
    routes/rows.py                     parse the request into RowsParameters or RowParameters (protocol/parameters.py)
    queries/answer_question.py         wait for the requested freshness, choose a lane
    answer_cache/lane.py               take a turn in the lane's thread, at one snapshot
    queries/parse.py                   turn the parameters into a Question (answer_cache/cache.py)
    answer_cache/cache.py              return the cached answer, or compute it: serving/view_at.py, then memory, else serving/read
    queries/respond.py                 render a page of the answer with its provenance and entity tag

One row of a view in memory takes a shorter path: middleware.py asks queries/look_up.py, which applies the same rights and limits,
without the framework or a turn in a lane.
"""
