"""Scripts that print figures beside a baseline measured in the same run, and their results."""
