"""The two stores behind the seam: a cluster, and a dump of one."""
