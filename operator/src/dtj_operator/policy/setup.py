"""From a job that is to run to a gang that exists: accept, rehearse, create. Pure."""

from dataclasses import replace
from datetime import datetime

from dtj_api.spec import JobSpec
from dtj_api.validation import mesh, world_size

from dtj_operator import children
from dtj_operator.policy import cleanup, failure, placement, restart
from dtj_operator.policy.admission import Examined, blueprint, examine_job, next_attempt
from dtj_operator.policy.decision import Begin, Decision, Finding
from dtj_operator.policy.refusal import told
from dtj_operator.settings import Settings
from dtj_operator.snapshot import Blocker, Job, World
from dtj_operator.workqueue import NOW, Requeue

BLOCKED_SECONDS = 2.0


def accept(world: World, spec: JobSpec, settings: Settings) -> Decision:
    """Begin attempt 0, or the one after a suspension, if everything it needs is there and would be taken."""
    job = world.job
    if world.user_claim is False:
        return _claim_not_found(job, spec, settings)
    examined = examine_job(world, settings)
    if examined.faults:
        return invalid(world, examined)
    if world.blockers:
        return blocked(world.blockers)
    attempt = next_attempt(job)
    resumes = job.status.condition("Suspended") is not None
    resumed = (Finding("Suspended", "False", "Resumed", f"attempt {attempt} goes on"),) if resumes else ()
    return Decision(
        phase="Pending",
        findings=(
            Finding("Created", "False", "Creating", _creating(spec)),
            Finding("Running", "False", "NotCreated", "the workers are being created"),
            *resumed,
        ),
        begin=Begin(attempt, spec.workers, world_size(spec), mesh(spec), resets_start=True),
        rehearse=tuple(child for child in examined.rehearse if not world.has(child)),
        next_look=NOW,
    )


def create(world: World, spec: JobSpec, now: datetime, settings: Settings) -> Decision | None:
    """Make what is missing of the attempt at hand. None where nothing is: it counts as created then, and not before."""
    stale, left_over = cleanup.stale_pods(world), cleanup.stale_children(world)
    wait = restart.until_due(world.job.status, spec.restart, now)
    if wait > 0:
        return Decision(phase="Restarting", remove=stale, discard=left_over, next_look=Requeue(after=wait))
    if world.blockers:
        return blocked(world.blockers)
    patience = failure.Patience(settings.settle_seconds, spec.health.lost_node_seconds)
    verdict = failure.judge(world.pods, world.pods, now, patience, world.nodes)
    if isinstance(verdict, failure.Verdict):
        return restart.follow_up(world, spec, verdict, now)
    if isinstance(verdict, failure.Settling):
        # more pods would come to nothing
        return Decision(phase="Pending", next_look=Requeue(after=verdict.seconds))
    plan = blueprint(world, spec, settings, world.job.attempt)
    wanted = children.prerequisites(plan)
    missing = tuple(child for child in wanted if not world.has(child))
    left_over = (*left_over, *cleanup.unwanted(world, wanted))
    pods = tuple(children.pods(plan, (worker for worker in range(spec.workers) if worker not in world.pods)))
    if not missing and not pods:
        return None
    return Decision(
        phase="Pending",
        findings=(Finding("Created", "False", "Creating", _creating(spec)),),
        create=missing,
        create_pods=pods,
        remove=stale,
        discard=left_over,
        next_look=NOW,
    )


def created(world: World, spec: JobSpec, followed: Decision) -> Decision:
    """Tell that the gang was created beside what follows from it. While it only starts, that can wait."""
    made = Finding(
        "Created", "True", "GangCreated", f"service and {spec.workers} worker pods of attempt {world.job.attempt} exist"
    )
    starts = any((finding.kind, finding.reason) == ("Running", "Starting") for finding in followed.findings)
    return replace(followed, findings=(made, *followed.findings), unhurried=starts)


def starting(world: World) -> Finding:
    """Why the gang does not run yet."""
    obstacle = placement.obstacle(world)
    if obstacle is not None:
        return Finding("Running", "False", obstacle.reason, obstacle.message)
    return Finding("Running", "False", "Starting", "waiting until the containers of all workers run")


def invalid(world: World, examined: Examined) -> Decision:
    """Nothing is made. The API server is asked all the same, so that everything is told at once."""
    return Decision(
        phase="Invalid",
        findings=(Finding("Created", "False", "InvalidSpec", told(examined.faults)),),
        faults=examined.faults,
        rehearse=examined.rehearse,
        remove=cleanup.not_yet_deleted(list(world.all_pods)),
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
        next_look=Requeue(after=BLOCKED_SECONDS),
    )


def _creating(spec: JobSpec) -> str:
    return f"creating the service and {spec.workers} worker pods"


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
