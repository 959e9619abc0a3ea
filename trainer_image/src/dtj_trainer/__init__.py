"""What runs in the pods of a job: the pod's supervisor (`launch`) and the rank process. Never talks to Kubernetes."""
