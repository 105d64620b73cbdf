"""The blocks of docs/scenarios/notebooks.md, as they stand there. Run by the Python that has Jupyter."""
import re
import subprocess
import sys
import unittest

from engine_case import BUILD, PATIENCE, SOURCE
from jupyter_case import NODE, JupyterCase

PAGE = (SOURCE / "docs/scenarios/notebooks.md").read_text()


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```", PAGE, re.M | re.S)


class Page(JupyterCase):
    def typed(self, block):
        """Each command that the block shows."""
        for line in re.findall(r"^\$ (.*)$", block, re.M):
            yield line, subprocess.run(["bash", "-c", line], env=dict(self.environment, PATH=f"{BUILD / 'bin'}:{self.environment['PATH']}", RATION_SIM=NODE[6:]),
                                       capture_output=True, text=True, timeout=PATIENCE)

    def test_page_kernels_are_installed_listed_and_removed(self):
        install, listing, remove = self.typed(blocks("console")[0])
        for line, done in (install, listing, remove):
            self.assertEqual(done.returncode, 0, f"{line}: {done.stderr}")
        self.assertIn("Python 3 · 4 GiB GPU", listing[1].stdout)
        self.assertFalse(list((self.folder / "data/kernels").glob("*")))

    def test_page_the_hub_takes_its_lines(self):
        block, = blocks("python")
        told = subprocess.run([sys.executable, "-c", f"from traitlets.config import Config\nc = Config()\n{block}\nprint(c.Spawner.cmd, c.Spawner.options_form)"],
                              env=self.environment, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(told.returncode, 0, told.stderr)
        self.assertIn("ration_jupyter.singleuser", told.stdout)

    def test_page_the_daemon_takes_its_configuration(self):
        (self.folder / "ration.toml").write_text("\n".join(blocks("toml")))
        done = self.ration("config", "validate")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_page_its_last_commands_are_commands(self):
        for line, done in self.typed(blocks("console")[-1]):
            self.assertIn(done.returncode, (0, 3), f"{line}: {done.stderr}")  # 3: nobody was denied, no daemon runs


if __name__ == "__main__":
    unittest.main()
