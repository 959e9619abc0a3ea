"""The operator beside its peers and beside a bare client, on one real control plane with pretended nodes."""
