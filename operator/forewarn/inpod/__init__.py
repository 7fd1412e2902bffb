"""In the pod: the files under the podinfo mount → save now, stop before the next unit."""
