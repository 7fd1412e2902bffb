"""Tells every session on a reservation-managed GPU cluster that it may be stopped."""

__version__ = "0.1.0"
