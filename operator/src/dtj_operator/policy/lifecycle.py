"""From a new job to a finished one: what to do next. Pure.

Whatever must not happen twice is written to the status before it is done: the attempt before its pods are made, the
verdict before pods are stopped. So an operator killed between any two writes goes on where it was.
"""

from datetime import datetime

from dtj_api import names
from dtj_api.fields import InvalidFields
from dtj_api.spec import JobSpec
from dtj_api.validation import load_job_spec, world_size

from dtj_operator import children
from dtj_operator.children import Blueprint, shape
from dtj_operator.policy import evidence, failure, placement
from dtj_operator.policy.decision import Decision, Finding, Gang
from dtj_operator.settings import Settings
from dtj_operator.snapshot import Blocker, Job, World
from dtj_operator.workqueue import NOW, Requeue

# a condition's message is bounded
MOST_FAULTS = 20


def decide(world: World, now: datetime, settings: Settings) -> Decision:
    """The next step of a job, from any state it may be in."""
    if world.job.status.finished:
        return _stop_what_still_runs(world)
    if world.job.status.is_true("Created"):
        return _follow(world, now, settings)
    return _set_up(world, now, settings)


def _set_up(world: World, now: datetime, settings: Settings) -> Decision:
    job = world.job
    try:
        spec = _valid_spec(job)
    except InvalidFields as error:
        return _invalid(world, error)
    if world.user_claim is False:
        return _claim_not_found(job, spec, settings)
    if world.blockers:
        return blocked(world.blockers)
    blueprint = _blueprint(job, spec, settings)
    if job.status.attempt is None:
        return _accept(spec, (*children.prerequisites(blueprint), *children.pods(blueprint, [0])))
    return _create(world, blueprint, now, settings)


def _create(world: World, blueprint: Blueprint, now: datetime, settings: Settings) -> Decision:
    """Make what is missing of an accepted job. Only what the next look sees complete counts as created."""
    spec = blueprint.spec
    verdict = failure.judge(world.pods, world.pods, now, settings.settle_seconds)
    if isinstance(verdict, failure.Verdict):
        return _fail(verdict)
    if isinstance(verdict, failure.Settling):
        # more pods would come to nothing
        return Decision(phase="Pending", next_look=Requeue(after=verdict.seconds))
    missing = _missing(world, children.prerequisites(blueprint))
    pods = children.pods(blueprint, (worker for worker in range(spec.workers) if worker not in world.pods))
    if missing or pods:
        creating = Finding("Created", "False", "Creating", _creating(spec))
        return Decision(
            phase="Pending", findings=(creating,), create=tuple(missing), create_pods=tuple(pods), next_look=NOW
        )
    made = Finding("Created", "True", "GangCreated", f"service and {spec.workers} worker pods exist")
    return Decision(phase="Pending", findings=(made, _starting(world)), next_look=NOW)


def _valid_spec(job: Job) -> JobSpec:
    spec = job.spec if isinstance(job.spec, dict) else {}
    template = spec.get("template")
    faults = list(shape.faults(template)) if isinstance(template, dict) else []
    if faults:
        raise InvalidFields(faults)
    return load_job_spec(spec)


def _accept(spec: JobSpec, rehearse: tuple[children.Object, ...]) -> Decision:
    return Decision(
        phase="Pending",
        findings=(
            Finding("Created", "False", "Creating", _creating(spec)),
            Finding("Running", "False", "NotCreated", "the workers are being created"),
        ),
        accept=Gang(spec.workers, world_size(spec)),
        rehearse=rehearse,
        next_look=NOW,
    )


def _creating(spec: JobSpec) -> str:
    return f"creating the service and {spec.workers} worker pods"


def _invalid(world: World, error: InvalidFields) -> Decision:
    faults = [evidence.tidy(str(fault)) for fault in error.errors[:MOST_FAULTS]]
    if len(error.errors) > MOST_FAULTS:
        faults.append(f"and {len(error.errors) - MOST_FAULTS} more")
    message = f"{'; '.join(faults)}; correct the spec and apply it again"
    return Decision(
        phase="Invalid",
        findings=(Finding("Created", "False", "InvalidSpec", message),),
        remove=tuple(world.pods.values()),
    )


def _claim_not_found(job: Job, spec: JobSpec, settings: Settings) -> Decision:
    claim = spec.checkpoint.claim_name if spec.checkpoint else None
    message = (
        f"spec.checkpoint.claimName: there is no PersistentVolumeClaim {claim} in namespace {job.namespace}; create it "
        "there and the job goes on by itself, or set spec.checkpoint.size instead to have one created"
    )
    return Decision(
        phase="Pending",
        findings=(Finding("Created", "False", "ClaimNotFound", message),),
        next_look=Requeue(after=settings.claim_seconds),
    )


def blocked(blockers: tuple[Blocker, ...]) -> Decision:
    """Something else has a name this job needs."""
    listed = ", ".join(f"{b.kind} {b.name} (of {b.owner})" for b in blockers[:5])
    if len(blockers) > 5:
        listed += f" and {len(blockers) - 5} more"
    if all(b.leftover for b in blockers):
        reason, message = "WaitingForRemoval", f"waiting until what an earlier job left is removed: {listed}"
    else:
        reason = "NameTaken"
        advice = "delete those objects, or give the job another name"
        if any(b.kind == "PersistentVolumeClaim" for b in blockers):
            advice += ", or use that claim by spec.checkpoint.claimName"
        message = f"names this job needs are taken: {listed}; {advice}"
    return Decision(
        phase="Pending",
        findings=(Finding("Created", "False", reason, message),),
        next_look=Requeue(after=2.0),
    )


def _follow(world: World, now: datetime, settings: Settings) -> Decision:
    """The spec is not read any more: what runs is what was created, and the status knows its size."""
    workers = world.job.status.workers
    desired = workers.desired if workers else len(world.pods)
    verdict = failure.judge(world.pods, range(desired), now, settings.settle_seconds)
    if isinstance(verdict, failure.Verdict):
        return _fail(verdict)
    if isinstance(verdict, failure.Settling):
        return Decision(next_look=Requeue(after=verdict.seconds))
    if desired and sum(pod.succeeded for pod in world.pods.values()) >= desired:
        return _succeed(desired)
    repair = _lost_service(world, settings)
    if world.job.status.is_true("Running"):
        return Decision(phase="Running", repair=repair)
    if all(pod.trainer_running or pod.end is not None or pod.succeeded for pod in world.pods.values()):
        running = Finding("Running", "True", "AllWorkersRunning", f"all {desired} workers run")
        return Decision(phase="Running", findings=(running,), repair=repair)
    return Decision(phase="Pending", findings=(_starting(world),), repair=repair)


def _lost_service(world: World, settings: Settings) -> tuple[children.Object, ...]:
    """Unlike a pod, the service can be made again without harm: only names hang on it."""
    if ("Service", names.service(world.job.name, world.job.attempt)) in world.present:
        return ()
    try:
        blueprint = _blueprint(world.job, _valid_spec(world.job), settings)
    except InvalidFields:
        return ()
    return (children.service.build(blueprint),)


def _blueprint(job: Job, spec: JobSpec, settings: Settings) -> Blueprint:
    return Blueprint(job.namespace, job.name, job.uid, job.attempt, spec, settings.trainer_image)


def _missing(world: World, wanted: list[children.Object]) -> list[children.Object]:
    return [thing for thing in wanted if (thing["kind"], thing["metadata"]["name"]) not in world.present]


def _starting(world: World) -> Finding:
    obstacle = placement.obstacle(world)
    if obstacle is not None:
        return Finding("Running", "False", obstacle.reason, obstacle.message)
    return Finding("Running", "False", "Starting", "waiting until the containers of all workers run")


def _succeed(desired: int) -> Decision:
    return Decision(
        phase="Succeeded",
        findings=(
            Finding("Running", "False", "JobSucceeded", "the job is over"),
            Finding("Succeeded", "True", "AllWorkersSucceeded", f"all {desired} workers ended with success"),
        ),
    )


def _fail(verdict: failure.Verdict) -> Decision:
    return Decision(
        phase="Failed",
        findings=(
            Finding("Running", "False", "JobFailed", "the job is over"),
            Finding("Failed", "True", verdict.reason, verdict.message),
        ),
        next_look=NOW,
    )


def _stop_what_still_runs(world: World) -> Decision:
    """Level-triggered by the finished status alone. Pods that have ended stay, for their logs."""
    return Decision(remove=tuple(pod for pod in world.pods.values() if not pod.ended and pod.deletion_due is None))
