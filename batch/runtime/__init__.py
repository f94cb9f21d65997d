"""What every batch run needs: session, locks, Spark tasks, splits of tables, file writers and Delta commits. It knows no view."""
