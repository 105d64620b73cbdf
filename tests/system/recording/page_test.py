#!/usr/bin/env python3
"""The page of a recording: one HTML file with the numbers of ration inspect, and the daemon's documents, whatever is asked."""
import http.client
import json
import pathlib
import random
import subprocess
import unittest

from recorded import BIN, Recorded

TRACES = pathlib.Path(__file__).resolve().parents[3] / "share/ration/traces"
MOST = 3_000_000


class Paged(Recorded):
    def asked(self, *arguments):
        done = subprocess.run([BIN / "ration", *arguments], env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def recorded(self, file, trace="medium_512_inference.csv"):
        done = subprocess.run([BIN / "ration", "record", "-o", file, f"--sim={self.NODE}", "--limit", "12GiB", "--sites", "native", "--", BIN / "ration-workload", "replay", TRACES / trace],
                              env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def document(self, page):
        self.assertLessEqual(len(page.encode()), MOST)
        return json.loads(page.split('<script type="application/json" id="recording">')[1].split("</script>")[0])


class Page(Paged):
    def test_the_file_has_the_numbers_of_inspect_and_nothing_of_it_is_elsewhere(self):
        file = self.folder / "a <b>&.rec"
        self.recorded(file)
        page = self.asked("inspect", file, "-o", "html")
        document, told = self.document(page), json.loads(self.asked("inspect", file, "-o", "json"))["data"]
        self.assertEqual(document["view"]["inspection"], told)
        self.assertEqual(document["name"], "a <b>&.rec")
        self.assertIn("default-src 'none'", page)
        self.assertEqual(page.count("</script>"), 2, "what stands in the recording ends no script")
        for at in ("src=", "<link", "@import", "url(http"):
            self.assertNotIn(at, page.split("<script>")[0], at)
        peak, held = document["peak"]["places"][0], told["held"][0]
        self.assertEqual(peak["bytes"], held["bytes"])
        self.assertEqual(sum(part["bytes"] for part in peak["parts"]), held["bytes"])
        self.assertEqual(sum(group["bytes"] * group["count"] for group in peak["groups"]) + peak["ungrouped_bytes"], held["requested_bytes"])
        self.assertEqual(sum(peak["map"]["runs"]["bytes"]) + peak["map"]["unaddressed_bytes"], held["requested_bytes"])
        self.assertEqual(max(document["view"]["window"]["lines"][0]["most_bytes"]), held["bytes"])
        exported = self.folder / "exported.html"
        self.asked("export", file, "--format", "html", "-o", exported)
        self.assertEqual(self.document(exported.read_text())["view"], document["view"])

    def test_two_runs_and_a_moment(self):
        other = self.folder / "after.rec"
        self.recorded(self.file)
        self.recorded(other, "medium_1024_inference.csv")
        document = self.document(self.asked("inspect", self.file, "--diff", other, "-o", "html", "--at", "1ms"))
        told = json.loads(self.asked("inspect", self.file, "--diff", other, "-o", "json", "--at", "1ms"))["data"]
        self.assertEqual(document["changes"], told["changes"])
        self.assertEqual((document["other"]["name"], document["at_seconds"]), ("after.rec", 0.001))
        self.assertIn(0.001, [moment["places"][0]["seconds"] for moment in document["moments"]])

    def test_a_million_events_fit_into_the_file(self):
        history, chance, live = self.folder / "long.csv", random.Random(1), []
        with open(history, "w") as out:
            out.write("t_us,op,id,size,stream\n")
            for event in range(1_000_000):
                if live and (len(live) > 50_000 or chance.random() < 0.45):
                    out.write("%d,f,%d,%d,0\n" % (event, *live.pop(chance.randrange(len(live)))))
                else:
                    live.append((event, chance.randrange(1, 1 << 20)))
                    out.write("%d,a,%d,%d,0\n" % (event, *live[-1]))
        page = self.asked("inspect", history, "-o", "html")
        document, told = self.document(page), json.loads(self.asked("inspect", history, "-o", "json"))["data"]
        self.assertEqual(told["events"], 1_000_000)
        self.assertEqual(document["view"]["inspection"]["held"], told["held"])
        self.assertGreater(len(document["moments"]), 7, "the moments are there")


class Routes(Paged):
    def setUp(self):
        super().setUp()
        state = self.folder / "state"
        self.daemon = subprocess.Popen([BIN / "rationd", f"--sim={self.NODE}", "--state", state, "--listen", "127.0.0.1:0"], env=self.environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (self.daemon.kill(), self.daemon.communicate()))
        self.port = int(self.daemon.stdout.readline().split("http://127.0.0.1:")[1].split(" ")[0])
        for line in self.daemon.stdout:
            if "the token from" in line:
                break
        self.recordings = state / "recordings"
        self.token = (state / "token").read_text().strip()
        self.recorded(self.recordings / "train.rec")

    def get(self, path, token=True):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        self.addCleanup(connection.close)
        connection.request("GET", "/api/v1/recordings" + path, headers={"Authorization": "Bearer " + self.token} if token else {})
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())

    def test_bad_input_is_rejected_and_leads_to_no_other_file(self):
        (self.recordings / "link.rec").symlink_to(self.recordings.parent / "token")
        (self.recordings / "text.rec").write_text("nothing\n")
        whole = (self.recordings / "train.rec").read_bytes()
        (self.recordings / "cut.rec").write_bytes(whole[:-30])
        for path, expected in (("", 200), ("/train.rec", 200), ("/train.rec?columns=1", 200), ("/train.rec?from=0&to=0", 200), ("/train.rec?from=4e9", 200), ("/train.rec/moment?at=4e9", 200),
                               ("/train.rec?columns=0", 400), ("/train.rec?columns=999999999999999999999", 400), ("/train.rec?columns=-1", 400), ("/train.rec?columns=1e3", 400),
                               ("/train.rec?from=nan", 400), ("/train.rec?from=inf", 400), ("/train.rec?from=-1", 400), ("/train.rec?from=1e300", 400), ("/train.rec?from=0x10", 400),
                               ("/train.rec?from=2&to=1", 400), ("/train.rec?to=", 200), ("/train.rec/moment?at=-0.1", 400), ("/train.rec/moment?at=a", 400), ("/train.rec/usage?from=x", 400),
                               ("/train.rec/changes", 404), ("/train.rec/changes?to=..%2ftoken", 404), ("/none.rec", 404), ("/..%2ftoken", 404), ("/%2e%2e%2ftoken", 404), ("/.rec", 404),
                               ("/link.rec", 404), ("/train.rec%2f..%2ftrain.rec", 404), ("/%ff.rec", 404), ("/text.rec", 422), ("/cut.rec", 422)):
            with self.subTest(path=path):
                status, answer = self.get(path)
                self.assertEqual(status, expected, answer)
                self.assertNotIn(self.token, json.dumps(answer))
        self.assertEqual(self.get("", token=False)[0], 403)
        self.assertEqual(self.get("/train.rec", token=False)[0], 403)
        self.assertEqual([each["name"] for each in self.get("")[1]["data"]["recordings"] if each["name"] == "link.rec"], [])

    def test_damaged_files_end_in_an_answer(self):
        whole, chance = (self.recordings / "train.rec").read_bytes(), random.Random(3)
        for attempt in range(40):
            damaged = bytearray(whole)
            for _ in range(chance.choice((1, 1, 3, 30))):
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
            (self.recordings / "bad.rec").write_bytes(damaged)
            for path in ("/bad.rec", "/bad.rec/moment", "/bad.rec/usage", "/bad.rec/changes?to=train.rec"):
                self.assertIn(self.get(path)[0], (200, 422), f"{attempt} {path}")
        self.assertEqual(self.get("/train.rec")[0], 200)

    def test_a_range_leads_down_to_the_events_and_loses_none(self):
        _, answer = self.get("/train.rec")
        length, events = answer["data"]["inspection"]["seconds"], answer["data"]["inspection"]["events"]
        pending, found = [(0, length)], {}
        while pending:
            begin, end = pending.pop()
            window = self.get(f"/train.rec?from={begin!r}&to={end!r}&columns=16")[1]["data"]["window"]
            if window["events"] is not None and window["events"] == len(window["listed"]):
                for each in window["listed"]:
                    found.setdefault(each["seconds"], []).append(begin)
            else:
                pending += [(begin, (begin + end) / 2), ((begin + end) / 2, end)]
        # A moment at the border of two ranges is in both.
        self.assertEqual(sum(1 for seconds, ranges in found.items() for begin in ranges if begin == max(ranges)), events)


if __name__ == "__main__":
    unittest.main()
