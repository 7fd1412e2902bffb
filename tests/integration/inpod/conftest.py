"""The tests of this folder need no API server; those marked ``torch`` run in an environment of their own."""

from __future__ import annotations
