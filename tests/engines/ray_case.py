"""What the tests of Ray share: simulated machines, and an environment in which Ray's processes find ration."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from engine_case import BUILD, LIBRARY, PATIENCE, SOURCE, until

FOLDER = tempfile.TemporaryDirectory(prefix="ray", ignore_cleanup_errors=True)
# Ray reads it when it is imported, and its processes inherit it.
os.environ.update(RATION_LIBRARY=LIBRARY, PYTHONPATH=str(SOURCE / "libration/python"), PATH=f"{BUILD / 'bin'}:{os.environ['PATH']}", RAY_DEDUP_LOGS="0",
                  RAY_USAGE_STATS_ENABLED="0", RAY_TMPDIR=FOLDER.name, HOME=FOLDER.name)
sys.path.insert(0, str(SOURCE / "libration/python"))


class Machine:
    """Simulated, with a folder of its own, and what ration says of it."""

    def __init__(self, name, node="T4:16GiB", configuration=""):
        self.folder, self.node, self.daemon = pathlib.Path(FOLDER.name, name), node, None
        self.folder.mkdir()
        (self.folder / "ration.toml").write_text('[daemon]\nsample = "100ms"\n' + configuration)

    def variables(self):
        return {"RATION_RUNTIME_DIR": str(self.folder), "RATION_SIM_DIR": str(self.folder), "RATION_CONFIG": str(self.folder / "ration.toml"),
                "RATION_SIM": self.node}

    def told(self, *command):
        done = subprocess.run([BUILD / "bin" / command[0], *command[1:]], env={**os.environ, **self.variables()}, check=True,
                              capture_output=True, text=True, timeout=PATIENCE)
        return json.loads(done.stdout)

    def typed(self, line, **variables):
        """What a line of a page prints, typed on this machine beside the Python that runs the tests."""
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        done = subprocess.run(["sh", "-c", line], env={**os.environ, **self.variables(), "PATH": path, **variables}, capture_output=True, text=True, timeout=PATIENCE)
        if done.returncode != 0:
            raise AssertionError(f"{line}: {done.stdout}{done.stderr}")
        return done.stdout

    def workloads(self):
        """What `ration ps` shows of those that hold something."""
        return [row for row in self.told("ration", "ps", "-o", "json")["data"] if row.get("used_bytes")]

    def truth(self):
        """What the first card really holds, whatever any book says."""
        return self.told("ration-sim-truth", "--json")["devices"][0]

    def start_daemon(self):
        self.daemon = subprocess.Popen(
            [BUILD / "bin/rationd", f"--sim={self.node}", "--state", self.folder / "state", "--listen", "127.0.0.1:0"],
            env={**os.environ, **self.variables()}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        if "ration" not in self.daemon.stdout.readline():
            raise AssertionError("rationd did not start")

    def stop_daemon(self):
        self.daemon.terminate()
        self.daemon.communicate()

    def until_empty(self):
        until(lambda: not self.workloads(), f"all memory on {self.folder.name} given back")
