"""Kubernetes to test against, on any machine. Knows nothing of the product it is used to test."""

from dtj_testbed.apiserver import ApiServer
from dtj_testbed.cluster import Cluster
from dtj_testbed.errors import TestbedError
from dtj_testbed.images import image_references
from dtj_testbed.kwok import KwokCluster

__all__ = ["ApiServer", "Cluster", "KwokCluster", "TestbedError", "image_references"]
