"""Arguments in, exit code out."""

import argparse
import sys

from dtj_cli.errors import CommandError


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="kubectl dtj", description="Ask about DistributedTrainingJobs.")
    commands = top.add_subparsers(dest="command", required=True)
    watch = commands.add_parser("watch", help="one live line until the job is over")
    watch.add_argument("name")
    watch.add_argument("-n", "--namespace", help="default: the namespace of the current context")
    watch.add_argument("--context", help="default: the current context of the kubeconfig")
    check = commands.add_parser("check", help="every fault of a manifest, without a cluster")
    check.add_argument("file")
    check.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="FEATURES",
        help="what the operator's chart value allow lists, such as hostNetwork,hostPath; may be repeated",
    )
    return top


def main() -> int:
    arguments = parser().parse_args()
    try:
        if arguments.command == "check":
            from dtj_cli.check import check

            return check(arguments.file, arguments.allow)
        return watch_job(arguments)
    except CommandError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def watch_job(arguments: argparse.Namespace) -> int:
    # imported here: the client takes a second to load, and `check` needs none
    from kubernetes import config

    from dtj_cli.watch import follow

    try:
        config.load_kube_config(context=arguments.context)
        _, current = config.list_kube_config_contexts()
    except config.ConfigException as error:
        raise CommandError(f"no usable kubeconfig: {error}; set KUBECONFIG") from None
    return follow(arguments.namespace or current["context"].get("namespace", "default"), arguments.name)


if __name__ == "__main__":
    sys.exit(main())
