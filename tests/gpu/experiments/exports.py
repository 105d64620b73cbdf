"""Functions that the driver and NVML export, beside those that ration knows; nvidia-smi, which wants some of its own."""
import json
import pathlib
import shutil
import struct

from . import Finding, NotPossible, experiment, setting
from .actor import ration, run
from .driver import Gpu, Nvml


def exported(path):
    """Names of the functions that a library in ELF exports, by its dynamic symbols."""
    data = pathlib.Path(path).read_bytes()
    start, size, count = struct.unpack_from("<Q", data, 0x28)[0], *struct.unpack_from("<HH", data, 0x3a)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, start + index * size) for index in range(count)]
    names = set()
    for _, kind, _, _, offset, length, link, _, _, entry in sections:
        if kind != 11:  # SHT_DYNSYM
            continue
        strings = sections[link][4]
        for at in range(offset, offset + length, entry):
            name, info, _, section, _, _ = struct.unpack_from("<IBBHQQ", data, at)
            if section != 0 and info & 15 in (2, 10):  # defined; a function, or one that is chosen at run time
                names.add(data[strings + name:data.index(b"\0", strings + name)].decode())
    return names


def path_of(library):
    """The file of a library that this process has loaded."""
    for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if pathlib.Path(path).name.startswith(library):
            return path
    raise NotPossible(f"{library} is not among this process's files")


def guard_folder():
    """Of the package, or of the build."""
    root = pathlib.Path(setting("ration")).parents[1]
    return next(folder for folder in (root / "lib/ration/shim", root / "shim") if folder.exists())


@experiment(1, "exported functions, beside those that ration knows", "all known that may concern memory; NVML may have private ones", 30)
def functions():
    gpu = Gpu()
    gpu.init()
    nvml = Nvml()
    counts, notes = [], []
    out = pathlib.Path(setting("out"))
    for library, prefix in (("libcuda.so", "cu"), ("libnvidia-ml.so", "nvml")):
        path = path_of(library)
        names = {name for name in exported(path) if name.startswith(prefix)}
        known = exported(guard_folder() / (library + ".1"))
        unknown, missing = sorted(names - known), len({name for name in known if name.startswith(prefix)} - names)
        print(path, len(names), "names; unknown:", *unknown)
        (out / f"names-{prefix}.txt").write_text("".join(name + "\n" for name in sorted(names)))
        counts.append(f"{library}: {len(names)}, {len(unknown)} unknown{': ' + ' '.join(unknown[:3]) if unknown else ''}")
        notes.append(f"{library}.1 exports {len(names)} functions, of which ration does not know {len(unknown)}{': ' + ' '.join(unknown) if unknown else ''}; "
                     f"{missing} that it knows are not there")
    version = gpu.version()
    done = run(*ration("doctor", "--only", "enforce.functions", "-o", "json"))
    print(done.stdout)
    release = nvml.driver().split("-")[0]
    facts = {"release": release, "cuda": f"{version // 1000}.{version % 1000 // 10}", "group_limits": nvml.group_limits(), "card": nvml.name()}
    return Finding(f"{release}, CUDA {facts['cuda']}; " + "; ".join(counts), json.loads(done.stdout)["data"][0]["result"] == "OK", facts, notes)


@experiment(2, "nvidia-smi, -q and pmon under a limit", "work; the total is the limit", 60)
def nvidia_smi():
    if not shutil.which("nvidia-smi"):
        raise NotPossible("nvidia-smi is not installed")
    said, good = [], True
    for arguments in ([], ["-q"], ["pmon", "-c", "1"], ["--query-gpu=memory.total", "--format=csv,noheader,nounits"]):
        bare = run("nvidia-smi", *arguments)
        held = run(*ration("run", "--limit", "1GiB", "--", "nvidia-smi", *arguments))
        print(arguments, bare.returncode, bare.stdout, held.returncode, held.stdout, sep="\n")
        label = " ".join(arguments) or "plain"
        if label.startswith("--query"):
            total = (held.stdout.split() or ["n/a"])[0]
            said.append(f"total {total} MiB")
            good = good and total == "1024"
        else:
            said.append(f"{label}: exit code {held.returncode}" + (f" ({bare.returncode} without a limit)" if bare.returncode != held.returncode else ""))
            good = good and held.returncode == bare.returncode
    return Finding("; ".join(said), good)
