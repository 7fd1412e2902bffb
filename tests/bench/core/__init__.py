"""Measurements of the one command."""
