"""What a person sees: TensorBoard itself, in a browser, beside a running program."""
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest
import urllib.request

from export_case import GIB, HISTORIES, NAMES, NODE, WORKLOAD, ExportCase, Facts, until
from browser import BROWSER, Browser
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

TENSORBOARD = pathlib.Path(sys.executable).with_name("tensorboard")

PICTURES = os.environ.get("RATION_TEST_PICTURES")
# The text of a page whose parts lie in shadow trees.
SEEN = """(function seen(node) {
  if (node.nodeType === Node.TEXT_NODE) return node.textContent;
  if (['STYLE', 'SCRIPT'].includes(node.nodeName)) return '';
  return [...(node.shadowRoot ? node.shadowRoot.childNodes : []), ...node.childNodes].map(seen).join(' ');
})(document.body).replace(/\\s+/g, ' ')"""


class Training:
    """A training's own scalars, as its framework writes them."""

    def __init__(self, folder):
        self.file, self.began, self.step = EventFileWriter(str(folder)), time.monotonic(), 0

    def go_on(self):
        """The steps that are done by now: two a second."""
        while self.step < 2 * (time.monotonic() - self.began):
            self.file.add_event(Event(wall_time=time.time(), step=self.step, summary=Summary(value=[Summary.Value(tag="loss", simple_value=2.5 * 0.95 ** self.step)])))
            self.step += 1
        self.file.flush()


@unittest.skipUnless(BROWSER, "needs a browser")
class Page(ExportCase):
    def served(self, logs):
        """The address of a TensorBoard for that folder."""
        log = (self.folder / "tensorboard.log").open("w")
        process = subprocess.Popen([TENSORBOARD, "--logdir", logs, "--port", "0", "--host", "127.0.0.1", "--reload_interval", "1"], env=self.environment,
                                   stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.addCleanup(lambda: (process.terminate(), process.wait(), log.close()))
        return until(lambda: re.search(r"http://\S+", (self.folder / "tensorboard.log").read_text()), "the address of TensorBoard")[0]

    def known(self, address):
        """The tags that this TensorBoard has read."""
        with urllib.request.urlopen(f"{address}data/plugin/scalars/tags") as answer:
            return set().union(*json.load(answer).values())

    def test_charts_of_a_running_program_are_seen_beside_its_loss(self):
        runs = self.folder / "runs"
        program = self.started(NODE, "--limit", "4GiB", "--name", "train", "--tensorboard", runs, "--",
                               WORKLOAD, "steps", "--repeat", "--refused", "go-on", "--speed", "2", "1GiB:4s", "2GiB:6s", "3GiB:4s", "6GiB:4s")
        training = Training(runs / "train")
        browser, address = Browser(self), self.served(runs)
        browser.ask("Emulation.setDeviceMetricsOverride", width=1280, height=960, deviceScaleFactor=1, mobile=False)
        if PICTURES:
            until(lambda: training.go_on() or training.step > 50, "charts worth a picture")
        # A page asks once for the runs and their tags, so it is opened when TensorBoard has read all of them.
        until(lambda: training.go_on() or self.known(address) >= {"loss", *(f"gpu_0/{name}" for name in NAMES)}, "the tags of both runs")
        browser.open(address + "?smoothing=0#timeseries")

        def shown(*texts):
            training.go_on()
            seen = browser.run(SEEN) or ""
            return all(text in seen for text in texts)
        until(lambda: shown("ration/train-1", "gpu_0 4 cards", "loss", "Single"), "the charts")
        browser.run("[...document.querySelectorAll('button')].find((each) => each.innerText.includes('Settings')).click()")
        until(lambda: shown("gpu_0 4 cards") and "Horizontal Axis" not in browser.run(SEEN), "the charts without the settings")
        if PICTURES:
            time.sleep(3)  # the lines are drawn once the frame has its width
        browser.picture("tensorboard-scalars.png")
        browser.open("about:blank")
        browser.open(address + "#custom_scalars")
        until(lambda: shown("GPU memory", "GPU 0, GiB", "Matches"), "the chart of several lines")
        browser.picture("tensorboard-custom.png")
        self.assertIsNone(program.poll())

    def test_the_profile_page_shows_a_recording(self):
        history, runs = HISTORIES[0], self.folder / "runs"
        done = self.ration("export", history, "--format", "xspace", "-o", f"{runs}/")
        self.assertEqual(done.returncode, 0, done.stderr)
        browser, address = Browser(self), self.served(runs)
        browser.open(f"{address}data/plugin/profile/index.html?run={history.stem}&tag=memory_profile&host={os.uname().nodename}")
        peak = f"{Facts(history).peak / GIB:.2f} GiB"
        until(lambda: f"Memory Capacity {peak} Lifetime Peak Heap Usage" in " ".join((browser.run("document.body.innerText") or "").split()), f"the peak, {peak}")


if __name__ == "__main__":
    unittest.main()
