"""The Java that runs broker and Spark, and the pinned jars. Set-up runs modules of this room before packages are installed, so
`packaged_java`, `network` and `jar_fetch` import only the standard library and one another.
"""
