"""Programs of stock frameworks on a simulated GPU under a limit, and what `ration whatif` says of their recordings."""
import json
import os
import pathlib
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[2]
NODE, GRANULE = "T4:32GiB", 2 << 20
DENIED = 17  # the exit code of a program that was denied memory


class Framework:
    """A program of a framework that runs under a limit. It ends with DENIED where it is denied memory."""

    def __init__(self, tools, python, program, variables):
        self.tools, self.python, self.program, self.variables = tools, python, program, variables

    def run(self, *words, limit="max", options=()):
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, RATION_RUNTIME_DIR=folder, RATION_SIM_DIR=folder, PYTHONPATH=str(SOURCE / "libration/python"),
                               RATION_LIBRARY=str(self.tools.parent / "lib/libration.so.1"), **self.variables)
            summary = pathlib.Path(folder, "summary.json")
            line = [self.tools / "ration", "run", f"--sim={NODE}", "--limit", limit if limit == "max" else f"{limit}B", "--summary", f"json:{summary}",
                    "--framework-hints", "off", *options, "--", self.python, "-c", self.program, *map(str, words)]
            done = subprocess.run(line, env=environment, capture_output=True, text=True, cwd=folder)
            told = json.loads(summary.read_text())
            if done.returncode not in (0, DENIED) and not any(account["denials"] for account in told["accounts"]):
                raise RuntimeError(done.stderr[-3000:])
            return done.returncode == 0, told

    def context(self):
        """What the process holds before the first tensor."""
        return self.run("none", "stop", limit=16 << 30)[1]["accounts"][0]["peak_bytes"]

    def smallest(self, guess, *words):
        """The smallest limit under which it is denied nothing, looked for around `guess`."""
        fits = lambda limit: self.run(*words, limit=limit)[0]
        if fits(guess):
            enough, step = guess, GRANULE
            while fits(enough - step):
                enough, step = enough - step, step * 4
            denied = enough - step
        else:
            denied, step = guess, GRANULE
            while not fits(denied + step):
                denied, step = denied + step, step * 4
            enough = denied + step
        while enough - denied > GRANULE:
            middle = denied + (enough - denied) // GRANULE // 2 * GRANULE
            if fits(middle):
                enough = middle
            else:
                denied = middle
        return enough


def answer(tools, recording, allocator):
    """The smallest limit that what-if names for it under an allocator."""
    told = subprocess.run([tools / "ration", "whatif", recording, "--allocator", allocator, "-o", "json"], capture_output=True, text=True, check=True)
    row, = [row for row in json.loads(told.stdout)["data"]["recordings"][0]["answers"] if row["allocator"] == allocator]
    return row["smallest_limit_bytes"]
