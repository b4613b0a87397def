"""Every side effect on a cluster, through the cluster only."""
