#!/usr/bin/env python3
"""What a claim on GPU memory adds to the start of a pod: python3 bench/kubernetes/pod_bench.py BUILD/bin

On the real Kubernetes of one node that `./dev test kubernetes` makes, as root, in namespaces of its own. From the request that makes a pod to the event that
it runs; a pod with a claim of a template and one without, in turn; the median of the differences. Prints one table: figure, measured, bound."""
import json
import os
import pathlib
import ssl
import statistics
import sys
import time
import urllib.request

SOURCE = pathlib.Path(__file__).resolve().parents[2]
os.environ.update(BUILD_BIN=str(pathlib.Path(sys.argv[1]).resolve()), SOURCE=str(SOURCE))
sys.path.insert(0, str(SOURCE / "tests/engines/kubernetes"))
import cluster  # noqa: E402
from kubernetes_cluster import API  # noqa: E402

if cluster.missing():
    sys.exit(f"{', '.join(cluster.missing())} is not here: ./dev test kubernetes makes it")
cluster.in_own_namespaces()
from governed_cluster import BIN, WORKLOAD, GovernedCluster  # noqa: E402

PODS = f"{API}/api/v1/namespaces/default/pods"
ROUNDS = 15


def ask(method, path, body=None):
    request = urllib.request.Request(path, json.dumps(body).encode() if body else None, {"Authorization": "Bearer secret", "Content-Type": "application/json"}, method=method)
    return urllib.request.urlopen(request, context=ssl._create_unverified_context(), timeout=60)


def start_ms(name, claims):
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"hostNetwork": True, "restartPolicy": "Never", "terminationGracePeriodSeconds": 0,
                     "containers": [{"name": "main", "image": WORKLOAD, "imagePullPolicy": "Never", "command": ["sleep", "1000"],
                                     **({"resources": {"claims": [{"name": "gpu"}]}} if claims else {})}],
                     **({"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "four"}]} if claims else {})}}
    with ask("GET", f"{PODS}?watch=1&fieldSelector=metadata.name={name}") as events:
        begun = time.perf_counter()
        ask("POST", PODS, body).close()
        for line in events:
            if json.loads(line)["object"]["status"].get("phase") == "Running":
                taken = 1000 * (time.perf_counter() - begun)
                break
    ask("DELETE", f"{PODS}/{name}").close()
    return taken


def main():
    cluster.LOGS.mkdir(parents=True, exist_ok=True)
    node = GovernedCluster(BIN / "ration", cluster.LOGS)
    try:
        node.up()
        plain, claimed = [], []
        for number in range(ROUNDS):
            plain.append(start_ms(f"plain{number}", False))
            claimed.append(start_ms(f"claimed{number}", True))
            cluster.until(lambda: not node.get("pods")["items"], "both are gone")
        added = statistics.median(with_claim - without for with_claim, without in zip(claimed, plain))
        print(f"start of a pod, added by a claim   {added:.0f} ms of {statistics.median(claimed):.0f}   <= 300 ms   {'ok' if added <= 300 else 'MISSED'}")
    finally:
        node.down()


main()
