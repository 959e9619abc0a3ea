"""What the operator knows without asking: a cache of jobs and their children that watches keep current.

Decisions are taken on it, since most looks at a job find nothing to do. It may lag behind; reconciler.py says what is
therefore asked again before it is done.
"""

from dtj_operator.informer.cache import WATCHED_KINDS, Cache
from dtj_operator.informer.job_watch import JobWatch
from dtj_operator.informer.reflector import Reflector

__all__ = ["WATCHED_KINDS", "Cache", "JobWatch", "Reflector"]
