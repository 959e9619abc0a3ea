"""What a run shows of itself: log lines, metrics, the progress record. Nothing here changes what is trained."""
