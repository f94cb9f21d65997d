"""Arrow arrays from and to Python, numpy and bytes. It knows no event and no view."""
