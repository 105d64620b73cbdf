"""A model server of three replicas on Ray Serve, with the configuration and the program of docs/scenarios/serving.md. Run by the Python that has Ray."""
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import socket
import sys
import unittest
import urllib.error
import urllib.request

from engine_case import GIB, PATIENCE, SOURCE, until
from ray_case import FOLDER, Machine

import ration.ray
import ray
from ray import serve

PAGE = (SOURCE / "docs/scenarios/serving.md").read_text()
SLICE = 12 * GIB  # what the page's tenant may hold, of a card of 16 GiB
OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"


def block(name):
    """The block of the page that names this file."""
    return re.search(rf"^```\w+\n(# {re.escape(name)}\n.*?)^```", PAGE, re.M | re.S)[1]


def setUpModule():
    global card, port, model
    card = Machine("card", configuration=block("~/.config/ration/ration.toml"))
    os.environ.update(card.variables())
    card.start_daemon()
    pathlib.Path(FOLDER.name, "model.py").write_text(block("model.py"))
    sys.path.insert(0, FOLDER.name)
    os.environ["PYTHONPATH"] += f":{FOLDER.name}"
    ray.init(num_cpus=8, num_gpus=1, object_store_memory=80 << 20, include_dashboard=False, log_to_driver=False)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    import model


def tearDownModule():
    serve.shutdown()
    ray.shutdown()
    card.stop_daemon()
    card.until_empty()


def ask(gib):
    """Of whichever replica it comes to: the status and the answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/?gib={gib}", timeout=PATIENCE) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


class ThreeReplicas(unittest.TestCase):
    def begin(self, **options):
        serve.run(model.Model.options(health_check_period_s=0.5, **options).bind())

    def tearDown(self):
        serve.delete("default")
        card.until_empty()

    def each_answers(self, gib):
        """The processes that answered, once three of them have."""
        pids = set()

        def three():
            status, answer = ask(gib)
            self.assertEqual(status, 200, answer)
            pids.add(answer["pid"])
            self.assertEqual(answer["holds"], (2 + gib) * GIB)
            return len(pids) == 3
        until(three, f"three replicas, but {pids}")
        return pids

    def test_each_answers_within_its_quarter_and_one_that_wants_more_fails_alone(self):
        self.begin()
        pids = self.each_answers(1.5)
        rows = card.workloads()
        self.assertEqual({re.sub("[0-9a-f]{8}$", "ID", f"{row['tenant']}/{row['workload']}") for row in rows}, {"serving/Model-ID"})
        self.assertEqual({process["pid"] for row in rows for process in row["processes"]}, pids)
        self.assertEqual({row["limit_bytes"] for row in rows}, {4 * GIB})
        self.assertGreater(min(row["used_bytes"] for row in rows), 3.5 * GIB)

        status, answer = ask(3)
        self.assertEqual((status, OUT_OF_MEMORY in answer), (500, True), answer)
        self.assertEqual(self.each_answers(1.5), pids, "the one that was denied memory goes on, too")
        self.assertEqual(sum(row["denials"] for row in card.workloads()), 1)
        self.assertLessEqual(card.truth()["peak_bytes"], SLICE)

    def test_one_killed_with_kill_9_comes_back_under_its_limit_and_leaves_nothing(self):
        self.begin()
        pids = self.each_answers(1.5)
        killed = pids.pop()
        os.kill(killed, signal.SIGKILL)
        until(lambda: killed not in [process["pid"] for process in card.truth()["processes"]], "its memory given back")
        until(lambda: len(card.workloads()) == 3, "a replica in its place")
        new = self.each_answers(1.5)
        self.assertTrue(pids < new and killed not in new, f"{pids} {new}")
        self.assertEqual({row["limit_bytes"] for row in card.workloads()}, {4 * GIB})
        self.assertEqual(sum(process["bytes"] for process in card.truth()["processes"]), sum(row["used_bytes"] for row in card.workloads()))
        self.assertLessEqual(card.truth()["peak_bytes"], SLICE)

    def test_fractions_that_are_more_than_the_slice_stay_in_it(self):
        self.begin(ray_actor_options=ration.ray.limited(num_gpus=0.3, tenant="serving", workload="Model"))
        held, denied = set(), []

        def two_hold_and_one_is_denied():
            status, answer = ask(2.5)
            if status == 200:
                held.add(answer["pid"])
            else:
                self.assertIn(OUT_OF_MEMORY, answer)
                denied.append(answer)
            return len(held) >= 2 and denied
        until(two_hold_and_one_is_denied, f"two of 4.6 GiB in 12 GiB, and no third: {held} {denied}")
        with concurrent.futures.ThreadPoolExecutor(12) as several:
            for status, answer in several.map(ask, [2.5] * 48):
                self.assertTrue(status == 200 or OUT_OF_MEMORY in answer, answer)
        self.assertLessEqual(card.truth()["peak_bytes"], SLICE)


if __name__ == "__main__":
    unittest.main()
