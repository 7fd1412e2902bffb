"""Admission: a pod being created → what it lacks → a JSON patch."""
