"""`make demo`: apply the example job, follow it, then show what it left behind; by what a user would type."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import plotext
import yaml
from dtj_api import names

ROOT = Path(__file__).parents[1]
MANIFEST = Path("examples/gpt-ddp.yaml")
INSPECTOR = "gpt-inspect"


def kubectl(*arguments: str, stdin: str | None = None) -> str:
    """Raises SystemExit with kubectl's own words."""
    done = subprocess.run(["kubectl", *arguments], input=stdin, capture_output=True, text=True, cwd=ROOT)
    if done.returncode:
        sys.exit(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def heading(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}", flush=True)


def main() -> int:
    job = yaml.safe_load((ROOT / MANIFEST).read_text())
    name = job["metadata"]["name"]
    heading(f"kubectl apply -f {MANIFEST}")
    kubectl("delete", "pod", INSPECTOR, "--ignore-not-found")
    kubectl("delete", "dtj", name, "--ignore-not-found", "--cascade=foreground")
    print(kubectl("apply", "-f", str(MANIFEST)), end="")

    heading(f"kubectl dtj watch {name}")
    started = time.monotonic()
    outcome = subprocess.run([sys.executable, "-m", "dtj_cli", "watch", name]).returncode
    if outcome:
        print(kubectl("describe", "dtj", name))
        return outcome
    print(f"{time.monotonic() - started:.0f} s from apply to Succeeded")

    heading(f"kubectl get dtj {name} -o wide")
    print(kubectl("get", "dtj", name, "-o", "wide"), end="")
    heading("training loss, from the log of worker 0")
    print(loss_curve(kubectl("logs", names.pod(name, 0, 0))))
    heading("on the volume")
    print(inspect(name))
    heading("next")
    print(next_steps(name))
    return 0


def loss_curve(log: str) -> str:
    """A chart of what the trainer logged."""
    records = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    points = [(r["step"], r["loss"]) for r in records if r.get("event") == "step"]
    steps, losses = zip(*points, strict=True)
    plotext.clear_figure()
    plotext.plot(list(steps), list(losses))
    plotext.plot_size(78, 16)
    plotext.theme("clear")
    plotext.xlabel("step")
    chart = str(plotext.build())
    return chart if sys.stdout.isatty() else plotext.uncolorize(chart)


def inspect(name: str) -> str:
    """List the files of the claim and recompute the validation loss from the newest checkpoint, in a pod of its own."""
    files = "find /checkpoints -type f -printf '%10s  %p\\n' | sort -k2"
    script = f"{files} && python -m dtj_trainer --evaluate /checkpoints --bigram"
    kubectl("apply", "-f", "-", stdin=json.dumps(inspector(name, script)))
    kubectl("wait", "--for=jsonpath={.status.phase}=Succeeded", f"pod/{INSPECTOR}", "--timeout=120s")
    output = kubectl("logs", INSPECTOR)
    kubectl("delete", "pod", INSPECTOR, "--wait=false")
    return output.rstrip()


def inspector(name: str, script: str) -> dict[str, Any]:
    """A pod with the trainer's image and the job's claim, read-only."""
    trainer = json.loads(kubectl("get", "pod", names.pod(name, 0, 0), "-o", "json"))["spec"]["containers"][0]
    claim = {"claimName": names.checkpoint_claim(name), "readOnly": True}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": INSPECTOR},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": {"runAsNonRoot": True, "runAsUser": 1000, "runAsGroup": 1000},
            "containers": [
                {
                    "name": "inspect",
                    "image": trainer["image"],
                    "command": ["sh", "-c", script],
                    "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints", "readOnly": True}],
                }
            ],
            "volumes": [{"name": "checkpoints", "persistentVolumeClaim": claim}],
        },
    }


def next_steps(name: str) -> str:
    return f"""\
kubectl and helm for this shell:  eval "$(make env)"
its metrics, while it runs:       kubectl port-forward {names.pod(name, 0, 0)} 9464   and   curl localhost:9464/metrics
delete it and all that it made:   kubectl delete dtj {name}
write a job of your own:          kubectl explain dtj.spec --recursive   and   examples/own-script.yaml"""


if __name__ == "__main__":
    sys.exit(main())
