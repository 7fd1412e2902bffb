"""Manifests: launch flags → a checked request → a pod or Job manifest."""
