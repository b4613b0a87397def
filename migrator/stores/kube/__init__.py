"""A cluster, through the official Kubernetes client."""

from migrator.stores.kube.official_client import install

install()
