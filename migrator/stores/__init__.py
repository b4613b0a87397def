"""What stands behind the seam: a cluster, or a dump of one."""
