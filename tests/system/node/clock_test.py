#!/usr/bin/env python3
"""A daemon on a machine whose clock is set hours ahead, and hours back."""
import datetime
import os
import signal
import struct
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from node.node_case import BIN, ClockCase  # noqa: E402
from node_client import GIB, UnixConnection  # noqa: E402

HOUR = 3600


def numbers_in(value):
    """Every number of a document, with the name under which it stands."""
    parts = value.items() if isinstance(value, dict) else ((None, each) for each in value) if isinstance(value, list) else ()
    for name, each in parts:
        if isinstance(each, (int, float)) and not isinstance(each, bool):
            yield name, each
        yield from numbers_in(each)


def seconds_of(time=None):
    """Since 1970; of this moment, by the real clock."""
    return (datetime.datetime.fromisoformat(time.replace("Z", "+00:00")) if time else datetime.datetime.now()).timestamp()


class JumpingClock(ClockCase):
    @property
    def configuration(self):
        return f'[[policy]]\nmatch = {{ users = ["*"] }}\nidle = {{ after = "30m", action = "suspend" }}\n[containers]\ncdi = "{self.folder}/cdi"\n'

    def jump(self, seconds):
        """And three looks later."""
        self.set_clock(seconds)
        seen = self.get("/api/v1/health")["looks"]
        self.until(lambda: self.get("/api/v1/health")["looks"] >= seen + 3, "the daemon has looked again")

    def text(self, path):
        connection = UnixConnection(self.folder / "ration.sock")
        connection.request("GET", path)
        text = connection.getresponse().read().decode()
        connection.close()
        return text

    def queue(self):
        return {lease["lease"]: lease for lease in self.get("/api/v1/leases")}

    def since(self, lease):
        """How many seconds ago, by the real clock and what was set."""
        (ahead,) = struct.unpack("<q", (self.folder / "clock").read_bytes())
        return seconds_of() + ahead - seconds_of(self.queue()[lease]["since"])

    def test_leases_claims_and_limits_stay_and_nobody_has_been_idle_for_hours(self):
        train = self.holding("train", "4GiB", "--limit", "10GiB", "--guarantee", "10GiB")
        uuid = self.get("/api/v1/devices")[0]["uuid"]
        self.assertEqual(self.ask("PUT", "/api/v1/claims/c-1", {"name": "ml/c-1", "devices": [{"uuid": uuid, "limit_bytes": 2 * GIB, "guarantee_bytes": 2 * GIB}]})[0], 200)
        status, granted = self.ask("POST", "/api/v1/leases", {"bytes": GIB})
        self.assertEqual((status, granted["data"]["state"]), (201, "granted"))
        waiter = subprocess.Popen([BIN / "ration", "run", *self.node.split(), "--wait=30m", "--name", "waits", "--limit", "8GiB", "--guarantee", "8GiB", "--",
                                   BIN / "ration-workload", "hold", "1GiB"], env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (waiter.terminate(), waiter.communicate()))
        (waits,) = self.until(self.queue, "it waits")
        for ahead in (5 * HOUR, 0, -5 * HOUR, -9 * HOUR):
            self.jump(ahead)
            with self.subTest(ahead=ahead):
                self.assertEqual(list(self.queue()), [waits], "it is neither over nor gone")
                self.assertLess(abs(self.since(waits)), 60)
                self.assertEqual(self.get(f"/api/v1/leases/{granted['data']['lease']}")["state"], "granted")
                self.assertEqual([claim["devices"][0]["limit_bytes"] for claim in self.get("/api/v1/claims")], [2 * GIB])
                row = self.row("train")
                self.assertEqual((row["state"], row["limit_bytes"], row["governed"]), ("running", 10 * GIB, True))
                self.assertLess(row["idle_seconds"], 60)
                self.assertEqual(self.events("suspending", "suspended", "idle", "ended", "ungoverned"), [])
                for path in ("snapshot", "reports/usage?window=24h&by=workload", "events?limit=1000"):
                    self.assertEqual([pair for pair in numbers_in(self.get("/api/v1/" + path)) if pair[1] < 0], [], path)
                self.assertEqual([line for line in self.text("/metrics").splitlines() if " -" in line and not line.startswith("#")], [])
        # What ends is seen, and who waited runs under its limit.
        train.send_signal(signal.SIGTERM)
        self.until(lambda: "waits" in self.rows(), "who waited runs")
        self.assertEqual(self.row("waits")["limit_bytes"], 8 * GIB)
        self.assertEqual(self.ask("DELETE", "/api/v1/claims/c-1")[0], 204)
        (ended,) = [event for event in self.events("ended") if event["workload"] == "train"]
        self.assertLess(abs(seconds_of(ended["time"]) + 9 * HOUR - seconds_of()), 60)
        self.assertRegex(self.events("gap")[0]["text"], "about (5h 00m|4h 59m): this gap in the accounts")


if __name__ == "__main__":
    unittest.main()
