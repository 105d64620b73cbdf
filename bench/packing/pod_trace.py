"""A trace of pods and the GPU memory of each: read from CSV, written, invented. docs/packing.md describes the columns."""
import csv
import dataclasses
import json
import random
import re
import sys

GIB = 1 << 30
COLUMNS = ("pod", "start", "end", "request", "peak", "guarantee", "use")
UNITS = {"": 1, "MiB": 1 << 20, "GiB": GIB}


class Wrong(Exception):
    """A trace, or a size, that cannot be read: what and where."""


def size_of(text):
    """Bytes; MiB and GiB are understood."""
    parts = re.fullmatch(r"(\d+(?:\.\d+)?) *(|MiB|GiB)", text.strip())
    if not parts:
        raise Wrong(f"{text!r} is no size: 85899345920, 80GiB")
    return int(float(parts[1]) * UNITS[parts[2]])


@dataclasses.dataclass(frozen=True)
class Pod:
    name: str
    start: float  # seconds, of any beginning
    end: float
    peak: int
    guarantee: int
    use: tuple  # (seconds after the start, bytes from then on), the first at 0

    def until(self):
        """Each step of its use as (from, until, bytes)."""
        ends = [after for after, _ in self.use[1:]] + [self.end - self.start]
        for (after, size), end in zip(self.use, ends):
            yield self.start + after, self.start + end, size

    def byte_seconds(self):
        return sum((end - begin) * size for begin, end, size in self.until())


def share_of_time(use, length, share):
    """The smallest use that is enough for this share of the time."""
    steps = sorted((size, end - begin) for (begin, size), end in zip(use, [after for after, _ in use[1:]] + [length]))
    passed = 0
    for size, seconds in steps:
        passed += seconds
        if passed >= share * length:
            return size
    return steps[-1][0]


def pod_of(row, guaranteed):
    """`guaranteed`: the share of time for which a guarantee suffices where the trace has none."""
    try:
        start, end = float(row["start"]), float(row["end"])
        request = row.get("request") or ""
        known = row.get("peak") or request
        use = tuple((float(after), size_of(size)) for after, size in (step.split(":") for step in (row.get("use") or "").split()))
        if not use and not known:
            raise Wrong("neither request, peak nor use says what it needs")
        use = use or ((0.0, size_of(known)),)
        peak = size_of(row["peak"]) if row.get("peak") else max(size for _, size in use)
    except (KeyError, ValueError) as problem:
        raise Wrong(f"{problem}: the columns are {','.join(COLUMNS)}") from None
    times = [after for after, _ in use]
    if end <= start or times[0] != 0 or times != sorted(set(times)) or times[-1] >= end - start:
        raise Wrong("it ends after it starts, and its use begins at 0 and goes on in order, within its life")
    if max(size for _, size in use) > peak:
        raise Wrong("it uses more than its peak")
    guarantee = size_of(row["guarantee"]) if row.get("guarantee") else share_of_time(use, end - start, guaranteed)
    return Pod(row["pod"], start, end, peak, min(guarantee, peak), use)


def read(file, guaranteed=0.5):
    pods = []
    for number, row in enumerate(csv.DictReader(file), 2):
        try:
            pods.append(pod_of(row, guaranteed))
        except Wrong as problem:
            raise Wrong(f"line {number}: {problem}") from None
    if not pods:
        raise Wrong(f"there is no pod in it: the columns are {','.join(COLUMNS)}")
    if len(set(pods)) < len(pods):
        raise Wrong("a pod stands in it twice")
    return sorted(pods, key=lambda pod: (pod.start, pod.name))


def write(pods, file=sys.stdout):
    rows = csv.writer(file, lineterminator="\n")
    rows.writerow(COLUMNS)
    for pod in pods:
        rows.writerow([pod.name, f"{pod.start:.15g}", f"{pod.end:.15g}", pod.peak, pod.peak, "", " ".join(f"{after:.15g}:{size}" for after, size in pod.use)])


def shape_of(history, steps=24):
    """An allocation history (share/ration/traces) as shares of its peak, one for each of so many equal parts of its events: the most that was live in that part."""
    sizes, live, curve = {}, 0, []
    for row in csv.DictReader(history):
        if row["op"] == "a":
            sizes[row["id"]] = int(row["size"])
            live += sizes[row["id"]]
        elif row["op"] == "f":
            live -= sizes.pop(row["id"], 0)
        curve.append(live)
    peak = max(curve)
    return [max(curve[len(curve) * part // steps:len(curve) * (part + 1) // steps]) / peak for part in range(steps)]


def shape_by_chance(chance):
    """Loads its model and serves it, with bursts; trains, and stays near its peak; is a notebook, used now and then."""
    kind = chance.choice(("serves", "trains", "notebook"))
    if kind == "trains":
        return [0.3, 0.8] + [chance.uniform(0.9, 1) for _ in range(22)]
    rest, often = (0.6, 0.2) if kind == "serves" else (0.1, 0.15)
    return [0.05] + [chance.uniform(rest, 1) if chance.random() < often else rest for _ in range(23)]


def invent(count, gpu_bytes, seed, shapes=()):
    """So many pods in a day: the same for the same seed."""
    chance = random.Random(seed)
    pods = []
    for number in range(count):
        start = round(chance.uniform(0, 20 * 3600))
        length = round(chance.uniform(600, 4 * 3600))
        peak = round(gpu_bytes * chance.choice((1, 2, 3, 4, 6, 10)) / 10)
        shape = chance.choice(shapes) if shapes else shape_by_chance(chance)
        steps, last = [], None
        for part, level in enumerate(shape):
            size = round(level / max(shape) * peak)
            if size != last:
                steps.append((float(length * part // len(shape)), size))
            last = size
        pods.append(Pod(f"pod-{number:04}", float(start), float(start + length), peak, 0, tuple(steps)))
    return sorted(pods, key=lambda pod: (pod.start, pod.name))


def from_alibaba(file, gpu_bytes):
    """Pods of Alibaba's GPU trace of 2023 (openb_pod_list_*.csv): shares of a GPU that were asked for, of GPUs of this size; a pod of several GPUs is one pod for each. Nothing says
    what they used."""
    for row in csv.DictReader(file):
        if not row["scheduled_time"] or float(row["deletion_time"]) <= float(row["scheduled_time"]):
            continue  # it never ran
        for gpu in range(int(row["num_gpu"])):
            size = gpu_bytes * int(row["gpu_milli"]) // 1000
            yield Pod(f"{row['name']}.{gpu}", float(row["scheduled_time"]), float(row["deletion_time"]), size, size, ((0.0, size),))


def from_prometheus(file):
    """Series of bytes, as `query_range` of Prometheus answers: a pod for each, and a further one where it was away for more than two steps."""
    for series in json.load(file)["data"]["result"]:
        name = ".".join(value for key, value in sorted(series["metric"].items()) if key != "__name__")
        samples = [(float(when), int(float(value))) for when, value in series["values"]]
        step = min((after - before for (before, _), (after, _) in zip(samples, samples[1:])), default=60)
        begins = [0, *(at for at in range(1, len(samples)) if samples[at][0] - samples[at - 1][0] > 2 * step), len(samples)]
        for part, (begin, end) in enumerate(zip(begins, begins[1:])):
            start = samples[begin][0]
            use = [(when - start, size) for at, (when, size) in enumerate(samples[begin:end]) if at == 0 or size != samples[begin + at - 1][1]]
            yield Pod(f"{name}#{part}" if part else name, start, samples[end - 1][0] + step, max(size for _, size in use), 0, tuple(use))
