"""The store that is a cluster."""
