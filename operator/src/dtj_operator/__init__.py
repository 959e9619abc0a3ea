"""The controller: brings DistributedTrainingJobs to life and follows them to their end."""
