"""kubectl dtj: what a person asks about their training jobs. Reads the cluster; decides nothing."""
