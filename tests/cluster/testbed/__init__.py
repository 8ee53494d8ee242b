"""A Kubernetes cluster of two nodes on one machine. Every node is a set of namespaces; a switch in another one joins them."""

from .cluster import Cluster

__all__ = ["Cluster"]
