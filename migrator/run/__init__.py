"""Every side effect on a cluster, through the store only."""
