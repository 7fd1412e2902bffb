"""Mirror: a pod's annotations over time → episodes → Kubernetes Events."""
