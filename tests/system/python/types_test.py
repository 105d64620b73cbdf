#!/usr/bin/env python3
"""What type checkers say of a program that uses ration: mypy and pyright at their strictest, from `build/types`."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["SOURCE"])
TOOLS = SOURCE / "build/types/bin"
PROGRAM = """
import ration
import ration.jax
import ration.torch

with ration.limit('6GiB'), ration.limit(0.5, device=0, host='8GiB'):
    pass
part = ration.share('generator', '40%', own_pool=True)
with part:
    used: int = part.info(0)['used']
part.limit('50%')
with ration.MemoryGuard('2GiB', name='block') as guard:
    peak: int = guard.peak
held: int = ration.workload()['used'] + ration.pinned()['used']
limits = ration.Schedule({'generator': [(0, '40%'), (10, '50%')]}).at(3)
ration.on_pressure(lambda wanted: None).cancel()
ration.mark('epoch 1')
for details in ration.get_memory_details():
    print(details['memory_total'])
gpus = ration.tf.config.list_physical_devices('GPU')
ration.tf.config.experimental.set_memory_growth(gpus[0], True)
ration.tf.config.set_logical_device_configuration(gpus[0], [ration.tf.config.LogicalDeviceConfiguration(memory_limit=1024)])


@ration.find_executable_batch_size(start=64)
def train(batch_size: int) -> float:
    return 0.5 * batch_size


@ration.find_executable_batch_size
def test(batch_size: int) -> float:
    return 0.5 * batch_size


loss: float = train() + test()
"""
WRONG = {"ration.limit(['6GiB'])": "argument", "ration.share('part').info(0)['used'].lower()": "lower", "ration.no_such_name": "no_such_name"}


@unittest.skipUnless((TOOLS / "pyright").exists(), "mypy and pyright cannot be had")
class Types(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "pyrightconfig.json").write_text(json.dumps(
            {"extraPaths": [str(SOURCE / "libration/python")], "typeCheckingMode": "strict", "include": ["program.py"], "venvPath": str(SOURCE / "build"), "venv": "types"}))

    def said(self, program, *words):
        (self.folder / "program.py").write_text(program)
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, timeout=240, env=dict(os.environ, MYPYPATH=str(SOURCE / "libration/python")))
        return done.returncode, done.stdout + done.stderr

    def checked(self, *words):
        self.assertEqual(self.said(PROGRAM, *words)[0], 0, self.said(PROGRAM, *words)[1])
        for line, word in WRONG.items():
            code, text = self.said(PROGRAM + line + "\n", *words)
            self.assertNotEqual(code, 0, line)
            self.assertIn(word, text.lower())

    def test_mypy(self):
        self.checked(TOOLS / "mypy", "--strict", "--follow-imports=silent", "--cache-dir", self.folder / "cache", "program.py")

    def test_pyright(self):
        self.checked(TOOLS / "pyright")


if __name__ == "__main__":
    unittest.main(verbosity=2)
