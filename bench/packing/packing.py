#!/usr/bin/env python3
"""How many GPUs a trace of pods needs: a whole GPU for each, its peak as its limit, or a guarantee and bursts. docs/packing.md

  packing.py TRACE --gpu 80GiB            one table
  packing.py --invent 200 --gpu 80GiB     a trace, on standard output
  packing.py --prometheus ANSWER.json      the same, of what Prometheus answers to query_range
  packing.py --alibaba openb_pod_list_default.csv --gpu 32GiB    the same, of that trace"""
import argparse
import dataclasses
import glob
import heapq
import math
import sys

import pod_trace
from pod_trace import GIB

FITS = {"first": lambda gpus: min(gpus, key=lambda gpu: gpu[1]), "best": min}  # of (free bytes, number)


@dataclasses.dataclass
class Packing:
    gpus: int
    place: dict  # number of the GPU by pod


@dataclasses.dataclass
class Denial:
    """A time in which the pods of a GPU want more than it has, beside what is guaranteed to others."""
    gpu: int
    begin: float
    end: float
    beyond: int  # the most by which they do
    without_guarantees: bool  # what they use alone is more than the GPU
    over: dict  # by pod: how much it holds beyond its guarantee at that moment


def pack(pods, gpu_bytes, need, fit):
    """In the order of their starts, without moving any: each onto a GPU that has room, chosen by `fit`; onto a new one where none has."""
    free, running, place = [], [], {}
    for pod in pods:
        while running and running[0][0] <= pod.start:
            _, _, number, size = heapq.heappop(running)
            free[number] += size
        size = need(pod)
        open_ones = [(left, number) for number, left in enumerate(free) if left >= size]
        if open_ones:
            number = FITS[fit](open_ones)[1]
        else:
            number = len(free)
            free.append(gpu_bytes)
        free[number] -= size
        heapq.heappush(running, (pod.end, len(place), number, size))
        place[pod] = number
    return Packing(len(free), place)


def at_least(pods, gpu_bytes):
    """GPUs without which the peaks have no room at some moment, however they were packed."""
    return max(math.ceil(total / gpu_bytes) for total in levels(pods, lambda pod: [(pod.start, pod.end, pod.peak)]))


def levels(pods, steps):
    changes = sorted(change for pod in pods for begin, end, size in steps(pod) for change in ((begin, size), (end, -size)))
    total = 0
    for _, change in changes:  # at one instant what ends comes first
        total += change
        yield total


def denials(packing, gpu_bytes):
    """What becomes of bursts: who is within a guarantee is served, who is beyond it gets what nobody is guaranteed."""
    on_card = {}
    for pod, number in packing.place.items():
        on_card.setdefault(number, []).append(pod)
    found = []
    for number, pods in sorted(on_card.items()):
        changes = sorted(((begin, 1, pod.name, size, pod) for pod in pods for begin, _, size in pod.until()), key=lambda change: change[:3])
        changes += [(pod.end, 0, pod.name, 0, pod) for pod in pods]
        changes.sort(key=lambda change: change[:3])
        now, denial = {}, None
        for at, (when, lives, _, size, pod) in enumerate(changes):
            if lives:
                now[pod] = size
            else:
                del now[pod]
            if at + 1 < len(changes) and changes[at + 1][0] == when:
                continue  # not all of this instant yet
            beyond = sum(max(held, each.guarantee) for each, held in now.items()) - gpu_bytes
            if beyond <= 0:
                if denial:
                    denial.end, denial = when, None
                continue
            if denial is None:
                denial = Denial(number, when, when, 0, False, {})
                found.append(denial)
            denial.without_guarantees |= sum(now.values()) > gpu_bytes
            if beyond > denial.beyond:
                denial.beyond = beyond
                denial.over = {each.name: held - each.guarantee for each, held in now.items() if held > each.guarantee}
    return found


def policies(pods, gpu_bytes):
    """By name: the packing of fewest GPUs, and the denials to be expected in it."""
    whole = pack(pods, gpu_bytes, lambda pod: gpu_bytes, "first")
    peaks = min((pack(pods, gpu_bytes, lambda pod: pod.peak, fit) for fit in FITS), key=lambda packing: packing.gpus)
    # A packing of the peaks is one of the guarantees, too.
    guarantees = [*(pack(pods, gpu_bytes, lambda pod: pod.guarantee, fit) for fit in FITS), peaks]
    judged = [(packing.gpus, len(found), number, packing, found) for number, packing in enumerate(guarantees) for found in [denials(packing, gpu_bytes)]]
    *_, bursts, found = min(judged, key=lambda each: each[:3])
    return {"whole GPU per pod": (whole, []), "peak as limit": (peaks, []), "guarantee + burst": (bursts, found)}


def table(pods, gpu_bytes, listed=10):
    begin, end = min(pod.start for pod in pods), max(pod.end for pod in pods)
    used = sum(pod.byte_seconds() for pod in pods)
    yield f"{len(pods)} pods in {(end - begin) / 3600:.1f} h, GPUs of {gpu_bytes / GIB:g} GiB; the peaks alone need {at_least(pods, gpu_bytes)}"
    yield f"{'policy':<20}{'GPUs':>7}{'in use':>9}{'denials':>9}{'of use alone':>14}{'hours':>8}{'most beyond':>14}{'whose':>7}"
    found = []
    for name, (packing, found) in policies(pods, gpu_bytes).items():
        hours = sum(denial.end - denial.begin for denial in found) / 3600
        whose = {who for denial in found for who in denial.over}
        yield (f"{name:<20}{packing.gpus:>7}{used / (packing.gpus * gpu_bytes * (end - begin)):>9.1%}{len(found):>9}{sum(denial.without_guarantees for denial in found):>14}{hours:>8.2f}"
               f"{max((denial.beyond for denial in found), default=0) / GIB:>10.1f} GiB{len(whose):>7}")
    for denial in sorted(found, key=lambda each: -each.beyond)[:listed]:
        who = ", ".join(f"{name} {over / GIB:.1f}" for name, over in sorted(denial.over.items(), key=lambda each: -each[1]))
        yield f"  GPU {denial.gpu}, {(denial.begin - begin) / 3600:.2f} h, for {(denial.end - denial.begin) / 60:.0f} min: {denial.beyond / GIB:.1f} GiB too many; GiB beyond a guarantee: {who}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="?", help="CSV: " + ",".join(pod_trace.COLUMNS))
    parser.add_argument("--gpu", type=pod_trace.size_of, default=80 * GIB, help="memory of one GPU (80GiB)")
    parser.add_argument("--guaranteed", type=float, default=0.5, help="share of its time for which a pod's guarantee suffices, where the trace names none (0.5)")
    parser.add_argument("--invent", type=int, metavar="PODS", help="print a trace instead")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shapes", nargs="+", default=[], metavar="HISTORY", help="allocation histories after which invented pods use their memory: share/ration/traces/*.csv")
    parser.add_argument("--alibaba", metavar="FILE", help="print that trace as one of this tool")
    parser.add_argument("--prometheus", metavar="FILE", help="print its series of bytes as a trace of this tool")
    asked = parser.parse_args()
    try:
        if asked.invent:
            shapes = [pod_trace.shape_of(open(path)) for pattern in asked.shapes for path in sorted(glob.glob(pattern))]
            pod_trace.write(pod_trace.invent(asked.invent, asked.gpu, asked.seed, shapes))
        elif asked.alibaba:
            with open(asked.alibaba) as file:
                pod_trace.write(pod_trace.from_alibaba(file, asked.gpu))
        elif asked.prometheus:
            with open(asked.prometheus) as file:
                pod_trace.write(pod_trace.from_prometheus(file))
        elif asked.trace:
            with open(asked.trace) as file:
                pods = pod_trace.read(file, asked.guaranteed)
            if large := [pod for pod in pods if pod.peak > asked.gpu]:
                raise pod_trace.Wrong(f"{large[0].name} needs {large[0].peak / GIB:.1f} GiB: more than a GPU of {asked.gpu / GIB:g} GiB has. Name a larger one: --gpu")
            print("\n".join(table(pods, asked.gpu)))
        else:
            parser.error("name a trace, or --invent one")
    except (OSError, pod_trace.Wrong) as problem:
        sys.exit(f"packing: {asked.trace or ''} {problem}")


if __name__ == "__main__":
    main()
