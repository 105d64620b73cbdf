#!/usr/bin/env python3
"""Stock PyTorch in a pod with a claim, on a real Kubernetes of one node with a simulated card of 16 GiB. PyTorch and its Python are the node's."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster as one_node  # noqa: E402

one_node.in_own_namespaces()
from governed_cluster import ON_CLUSTER, GovernedCluster, OnNode  # noqa: E402
from node_client import GIB, MIB  # noqa: E402

TORCH = one_node.SOURCE / "build/frameworks/torch"
PYTHON = TORCH / "bin/python"
FOLDERS = (TORCH, PYTHON.resolve().parents[1], "/lib/x86_64-linux-gnu")
TAKE_ALL = """
import json, torch
blocks = []
try:
    while True: blocks.append(torch.empty(256 << 20, dtype=torch.uint8, device="cuda"))
except torch.OutOfMemoryError as error: denied = str(error)
taken = len(blocks)
blocks.clear()
values = torch.arange(1 << 20)
print(json.dumps([taken, torch.cuda.mem_get_info()[1], torch.cuda.get_device_properties(0).total_memory, torch.equal(values.cuda().cpu(), values), denied]))
"""


@ON_CLUSTER
@unittest.skipUnless((TORCH / "obtained.txt").exists(), "PyTorch is not here: ./dev test frameworks installs it")
class StockTorch(OnNode):
    def test_it_gets_its_own_error_at_its_claim_and_a_neighbour_notices_nothing(self):
        type(self).cluster = GovernedCluster.of(self)
        self.cluster.up()
        self.cluster.start_pod(self, "neighbour", "ration-workload", "hold", "3GiB")
        neighbours = 3 * GIB + 64 * MIB
        one_node.until(lambda: self.held() == neighbours, "the neighbour holds memory")
        self.cluster.ask_for(self, "torch", str(PYTHON), "-c", TAKE_ALL, folders=FOLDERS)
        printed = self.ended("torch")
        self.assertEqual(self.phases(), {"neighbour": "Running", "torch": "Succeeded"}, printed)
        *numbers, denied = json.loads(printed.splitlines()[-1])
        self.assertEqual(numbers, [15, 4 * GIB, 4 * GIB, True])  # blocks of 256 MiB beside the context; it goes on after the error
        self.assertIn("total capacity of 4.00 GiB", denied)
        self.assertEqual(self.held(), neighbours)
        self.assertGreater(self.truth()["peak_bytes"], neighbours + 15 * 256 * MIB)
        self.assertLessEqual(self.truth()["peak_bytes"], neighbours + 4 * GIB)


if __name__ == "__main__":
    unittest.main()
