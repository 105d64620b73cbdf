#!/usr/bin/env python3
"""What TensorFlow's users write (`tensorflow_scripts`), stock, and with one import changed to `import ration.tf as tf`: what each prints and what it
takes of each card, by the simulator's own count. Run by the Python that has it."""
import json
import pathlib
import subprocess
import textwrap
import unittest

from case import CODE, CONTEXT, SOURCE, FrameworkCase, MiB

SCRIPTS = SOURCE / "tests/frameworks/tensorflow_scripts"
NODE = "T4:16GiB*2"

# Each script has a process and a simulated node of its own, forked before TensorFlow has looked at a device.
RUNNER = r"""
    import json, os, pathlib, re, sys, traceback
    import tensorflow
    for name, cards in json.loads(os.environ['SCRIPTS']).items():
        folder = pathlib.Path(name).absolute()
        folder.mkdir(mode=0o700)
        child = os.fork()
        if child == 0:
            os.chdir(folder)
            os.environ.update(RATION_SIM_DIR=str(folder), CUDA_VISIBLE_DEVICES=','.join(map(str, range(cards))))
            output = os.open('output', os.O_CREAT | os.O_WRONLY, 0o600)
            os.dup2(output, 1)
            os.dup2(output, 2)
            path = pathlib.Path(os.environ['PLACE'], name + '.py')
            code = path.read_text()
            if os.environ['WITH'] == 'ration': code = re.sub(r'^(import|from) tensorflow\b', r'\1 ration.tf', code, flags=re.M)
            try: exec(compile(code, path, 'exec'), {'__name__': '__main__'})
            except BaseException: traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)
        os.waitpid(child, 0)
"""


def held(*mebibytes, code=CODE):
    """What each card holds at its peak that has these MiB beside its context and its code; None: nothing, not even a context."""
    return [0 if each is None else CONTEXT + code + each * MiB for each in mebibytes]


# By script: its cards, what it prints last, and what each card holds at its peak, under ration too. What stands fourth is under ration alone, which lets
# TensorFlow grow; GROWS: no more than stock, since how a pool grows depends on the order of its threads. Beside its regions TensorFlow holds
# cuBLAS's workspace (4 MiB) and the images that XLA loads (2 MiB each).
GROWS = "grows"
TABLE = {
    "growth": (1, "(64, 1024, 1024) GPU:0", held(66, None)),
    "growth_by_variable": (1, "128 MiB", held(130, None)),
    "everything": (1, "GPU:0", held(15230, None), held(6, None)),
    "one_limit": (1, "900 MiB", held(1024, None)),
    "two_logical_devices": (1, "['GPU:0', 'GPU:1']", held(512 + 1024, None)),
    "out_of_memory": (1, "GPU:0", held(512, None)),
    "second_gpu": (2, "2 ['/device:GPU:0'] GPU:0", held(None, 66)),
    "no_gpu": (1, "10000.0", held(None, None)),
    "session_fraction": (1, "[   1 1024 1024]", held(4096, None, code=0), held(2, None, code=0)),
    "session_growth": (1, "[  64 1024 1024]", held(66, None)),
    "version_1": (1, "denied beyond a twentieth", held(130, None)),
    "fails_at_once": (1, "denied at once", held(256, None, code=0), held(2, None, code=0)),
    "async_allocator": (1, "(70, 1024, 1024)", held(160, None)),
    "statistics": (1, "step 2 peak 300 MiB, now 0 MiB", held(2 + 128 + 256 + 512, None)),
    "keras": (1, "2 epochs, (4, 10)", held(1024 + 6, None), GROWS),
    "many_models": (1, "does not grow", held(512 + 8, None), GROWS),
    "input_pipeline": (1, "4 steps (16, 256) GPU:0 2", held(768 + 6, None), GROWS),
    "mirrored": (2, "2 replicas", held(1024 + 6, 1024 + 6), GROWS),
    "profiler": (1, "1 profile", held(66, None)),
    "saved_model": (1, "(3, 1024)", held(512 + 4, None), GROWS),
    "checkpoint": (1, "3 2 autoclustering", held(512 + 6, None), GROWS),
    "several_processes": (1, "[0, 0]", [2 * each for each in held(512, None)]),
    "placement": (1, "GPU:0 True True False", held(34, None)),
}


class Scripts(FrameworkCase):
    """Both ways run at once, each as one program that imports TensorFlow once."""

    @classmethod
    def setUpClass(cls):
        cls.case = case = cls("test_stock")
        case.setUp()
        cls.addClassCleanup(case.doCleanups)
        running = {}
        for way in ("stock", "ration"):
            folder = pathlib.Path(case.folder.name, way)
            folder.mkdir(mode=0o700)
            environment = {**case.inside(NODE), "WITH": way, "PLACE": str(SCRIPTS),
                           "SCRIPTS": json.dumps({name: cards for name, (cards, *_) in TABLE.items()})}
            running[way] = subprocess.Popen([str(cls.python), "-W", "ignore", "-c", textwrap.dedent(RUNNER)], env=environment, cwd=folder,
                                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            cls.addClassCleanup(running[way].kill)
        cls.printed = {way: each.communicate(timeout=600)[0] for way, each in running.items()}

    def check(self, way):
        for name, (cards, prints, *peaks) in TABLE.items():
            folder = pathlib.Path(self.case.folder.name, way, name)
            self.environment["RATION_SIM_DIR"] = str(folder)
            with self.subTest(script=name):
                output = (folder / "output").read_text() if folder.is_dir() else self.printed[way]
                self.assertEqual(output.splitlines()[-1:], [prints], output[-4000:])
                taken = [device["peak_bytes"] for device in self.truth(NODE)["devices"]]
                if way == "stock":
                    self.assertEqual(taken, peaks[0])
                elif peaks[-1] == GROWS:
                    self.assertTrue(all(CONTEXT <= each <= max(stock, CONTEXT) for each, stock in zip(taken, peaks[0])), (taken, peaks[0]))
                else:  # ration measures a context once on each card
                    self.assertEqual(taken, [max(each, CONTEXT) for each in peaks[-1]])

    def test_stock(self):
        self.check("stock")

    def test_with_one_import_changed(self):
        self.check("ration")

    def test_every_script_is_in_the_table(self):
        self.assertEqual(sorted(TABLE), sorted(path.stem for path in SCRIPTS.glob("*.py")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
