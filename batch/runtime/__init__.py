"""What every batch run needs: session, locks, Spark jobs, file writers and Delta commits. It knows no view."""
