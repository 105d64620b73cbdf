"""NVIDIA's user-space drivers that are here, and an environment in which the guard holds a limit in front of one of them."""
import contextlib
import functools
import os
import pathlib
import re
import subprocess
import tempfile

SOURCE, BUILD = pathlib.Path(os.environ["SOURCE"]), pathlib.Path(os.environ["BUILD"])
ROOM = pathlib.Path(__file__).resolve().parent
GUARD = BUILD / "shim"
RELEASES = [line.split()[0] for line in (ROOM / "drivers.txt").read_text().splitlines() if not line.startswith("#")]
DRIVERS = {release: SOURCE / "build/nvidia" / release / "lib" for release in RELEASES}
HERE = [release for release, folder in DRIVERS.items() if folder.is_dir()]
NONE_HERE = "skipped: no driver of NVIDIA's here (./dev test unpacks them where there is a network)"


def compile_c(source, program, *libraries):
    return subprocess.run([os.environ["CXX"], "-x", "c", "-w", "-o", program, source, "-x", "none", *libraries, "-ldl", "-pthread"],
                          capture_output=True, text=True)


@functools.cache
def exported(library):
    """Name and kind (T: function, B or D: variable) of what it exports."""
    listed = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    return dict((name.split("@")[0], kind) for kind, name in re.findall(r"^\S+ (\w) (\S+)$", listed, re.M))


def bare(driver):
    """The environment of a program that finds this driver, without the guard."""
    return {"PATH": os.environ["PATH"], "LD_LIBRARY_PATH": str(driver)}


@contextlib.contextmanager
def governed(*options):
    """Yields a function from a driver's folder to the environment of a program that is governed in front of it. NVIDIA's driver finds no card
    here, so that `ration run` starts nothing on it: a workload on a simulated card lends its book and its guard."""
    with tempfile.TemporaryDirectory() as folder:
        own = {"PATH": os.environ["PATH"], "RATION_RUNTIME_DIR": f"{folder}/run", "RATION_SIM_DIR": f"{folder}/sim"}
        words = [BUILD / "bin/ration", "run", "--sim=T4", "--limit", "1GiB", *options, "--", "sh", "-c", "env -0; printf '\\0\\n'; read wait"]
        with subprocess.Popen(words, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as lender:
            entries = lender.stdout.readline().decode().split("\0")[:-2]
            inside = dict(entry.split("=", 1) for entry in entries)
            if "LD_PRELOAD" not in inside:
                raise AssertionError(f"the lender started nothing: {entries}")
            kept = {name: value for name, value in inside.items() if name.startswith(("RATION_", "LD_")) and not name.startswith("RATION_SIM")}
            yield lambda driver: {**bare(driver), **own, **kept, "RATION_DRIVER_PATH": str(driver)}
            lender.stdin.close()
