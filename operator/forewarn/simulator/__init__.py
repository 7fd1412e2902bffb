"""Simulator: a scenario → what the reservation controller does → a checked timeline."""
