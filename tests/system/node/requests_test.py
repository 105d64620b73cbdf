#!/usr/bin/env python3
"""What is asked of the daemon in a form that it cannot mean, or that somebody may not ask."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from node.node_case import Case  # noqa: E402
from node_client import GIB  # noqa: E402

NO_NUMBERS = ("6", True, 1.5, 1e308, 2 ** 64, 2 ** 63, -2 ** 63, [], {})


class Types(Case):
    def refused(self, field, method, path, body):
        with self.subTest(path=path, body=body):
            status, problem = self.ask(method, path, body)
            self.assertEqual((status, problem.get("id")), (400, "E1521"), problem)
            self.assertIn(f"'{field}'", problem["detail"])
            self.assertTrue(problem["fix"])

    def test_a_plan(self):
        def body(**more):
            return {"gpus": ["T4"], "tenants": [{"tenant": "a", "guarantee": "1GiB", **more.pop("tenant", {})}], **more}
        for count in (*NO_NUMBERS, 0, -1, 1001):
            self.refused("count", "POST", "/api/v1/plan", body(tenant={"count": count}))
        for spread in ("true", 1, 0, 1.5, [], {}):
            self.refused("spread", "POST", "/api/v1/plan", body(spread=spread))
        for good in (body(tenant={"count": 2}, spread=True), body(tenant={"count": None}, spread=None)):
            self.assertEqual(self.ask("POST", "/api/v1/plan", good)[0], 200, good)

    def test_a_registration(self):
        folder = str(self.folder)
        uuid = self.get("/api/v1/devices")[0]["uuid"]
        for wrong in ("x", -1, True, 1.5, 1e308, 2 ** 64, [], *({uuid: amount} for amount in ("4GiB", -1, True, 1.5, 1e308, 2 ** 64, None, [], {}))):
            self.refused("guarantees", "POST", "/api/v1/workloads", {"folder": folder, "guarantees": wrong})
        for made in ("true", 1, [], {}):
            self.refused("made", "POST", "/api/v1/workloads", {"folder": folder, "made": made})
        for good in ({}, {"guarantees": None, "made": None}, {"guarantees": {}, "made": False}, {"guarantees": {uuid: GIB}, "made": True}):
            status, answer = self.ask("POST", "/api/v1/workloads", {"folder": folder, **good})
            self.assertEqual(status, 200, (good, answer))
        status, problem = self.ask("POST", "/api/v1/workloads", {"folder": folder, "guarantees": {uuid: 2 ** 64 - 1}})
        self.assertEqual(problem.get("id"), "E1304", "more than anybody has")

    def test_a_lease(self):
        for priority in NO_NUMBERS:
            self.refused("priority", "POST", "/api/v1/leases", {"bytes": GIB, "priority": priority})
        for good, shown in ((None, 0), (-7, -7), (5000, 1000)):
            status, answer = self.ask("POST", "/api/v1/leases", {"bytes": GIB, "priority": good})
            self.assertEqual((status, answer["data"]["priority"]), (201, shown))

    def test_a_change_to_nothing(self):
        for field in ("limit", "guarantee", "gpu"):
            for path in ("/api/v1/workloads/x", "/api/v1/tenants/x"):
                self.refused(field, "PATCH", path, {"limit": "4GiB", field: ""})
        self.assertEqual(self.ask("PATCH", "/api/v1/workloads/x", {"limit": "4GiB", "guarantee": None})[0], 404)


if __name__ == "__main__":
    unittest.main(verbosity=2)
