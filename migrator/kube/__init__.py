"""A cluster, through the official Kubernetes client."""
