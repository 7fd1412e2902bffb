"""Measurements, printed as one table by ``make bench``: each module ``<area>/bench_*.py`` has ``TITLE`` and ``run``."""
