#!/usr/bin/env python3
"""Managed memory: how the simulated driver moves it, and what `ration run --managed` makes of it."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).parent.parent / "sim"), str(pathlib.Path(__file__).parent.parent)]
import waiting  # noqa: E402, F401
from actor import Actor  # noqa: E402
from program import Program  # noqa: E402

BIN = pathlib.Path(os.environ["BUILD_BIN"])
MIB = 1 << 20
CONTEXT = 64
NODE = f"T4:8GiB:context={CONTEXT}MiB"
OUT_OF_MEMORY = 2
READ_MOSTLY, PREFERRED, NOT_PREFERRED = 1, 3, 4  # CUmem_advise
HOST = -1
ANOTHER = "assert cuda.cuCtxCreate_v2(byref(c_void_p()), 0, 0) == 0"  # a context, in a Program


class Scene(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.environment = dict(os.environ, RATION_SIM_DIR=folder.name, RATION_RUNTIME_DIR=folder.name)
        self.of_the_device = dict(self.environment, RATION_SIM=NODE, LD_LIBRARY_PATH=str(BIN.parent / "sim"))

    def actor(self):
        actor = Actor(self.of_the_device)
        self.addCleanup(actor.end)
        self.assertEqual(actor.ask("init"), 0)
        return actor

    def governed(self, *options):
        actor = Actor(self.environment, [BIN / "ration", "run", f"--sim={NODE}", "--limit", "1GiB", "--name", "one", *options, "--"])
        self.addCleanup(actor.end)
        self.assertEqual(actor.ask("init"), 0)
        return actor

    def document(self, *arguments):
        done = subprocess.run([BIN / "ration", *arguments, f"--sim={NODE}", "-o", "json"], env=self.environment, capture_output=True, text=True,
                              check=True, timeout=60)
        return json.loads(done.stdout)["data"]

    def charged(self):
        return self.document("ps")[0]["used_bytes"] // MIB

    def device(self):
        told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=self.of_the_device, capture_output=True, text=True, check=True)
        return json.loads(told.stdout)["devices"][0]

    def there(self):
        """MiB in use on the device, whoever has them."""
        device = self.device()
        return (device["total_bytes"] - device["free_bytes"]) // MIB


class OfTheSimulatedDriver(Scene):
    def test_it_is_nowhere_until_it_is_touched(self):
        actor = self.actor()
        self.assertEqual([actor.ask("managed", 512), self.there()], [0, CONTEXT])
        self.assertEqual([actor.ask("fill", 0, 100), self.there()], [0, CONTEXT + 100])
        self.assertEqual([actor.ask("prefetch", 0, 300), self.there()], [0, CONTEXT + 300])
        self.assertEqual([actor.ask("run_kernel", 0), self.there()], [0, CONTEXT + 512])
        self.assertEqual([actor.ask("prefetch", 0, 512, HOST), self.there()], [0, CONTEXT])

    def test_what_prefers_the_host_stays_there_unless_it_is_prefetched(self):
        actor = self.actor()
        self.assertEqual([actor.ask("managed", 512), actor.ask("advise", 0, 256, PREFERRED, HOST)], [0, 0])
        self.assertEqual([actor.ask("run_kernel", 0), self.there()], [0, CONTEXT + 256])
        self.assertEqual([actor.ask("prefetch", 0, 256), self.there()], [0, CONTEXT + 512])
        self.assertEqual([actor.ask("prefetch", 0, 256, HOST), actor.ask("advise", 0, 256, NOT_PREFERRED, HOST)], [0, 0])
        self.assertEqual([actor.ask("run_kernel", 0), self.there()], [0, CONTEXT + 512])

    def test_it_makes_room_for_plain_memory_of_anybody(self):
        first, second = self.actor(), self.actor()
        self.assertEqual([first.ask("managed", 16384), first.ask("mark", 0, 16384), first.ask("run_kernel", 0), self.device()["free_bytes"]],
                         [0, 0, 0, 0])
        self.assertEqual([second.ask("take", 6144), self.device()["free_bytes"]], [0, 0])
        self.assertTrue(first.ask("is_marked", 0, 16384), "its contents are somewhere")
        self.assertEqual([second.ask("give"), first.ask("give"), self.there()], [0, 0, 2 * CONTEXT])

    def test_nvml_leaves_it_out_of_processes_and_not_out_of_the_device(self):
        actor = self.actor()
        self.assertEqual([actor.ask("managed", 512), actor.ask("fill", 0, 512)], [0, 0])
        self.assertEqual([process["bytes"] // MIB for process in self.device()["processes"]], [CONTEXT + 512])
        rows = {row["id"]: row["bytes"] // MIB for row in self.document("explain", "--gpu", "0")["rows"]}
        self.assertEqual((rows[f"pid-{actor.pid}"], rows["orphaned"]), (CONTEXT, 512))


class UnderALimit(Scene):
    def test_by_default_a_program_sees_a_card_of_the_size_of_its_limit(self):
        """Four times the limit, as AlphaFold asks for: what is beyond it stays on the host."""
        actor = self.governed()
        self.assertEqual([actor.ask("managed", 4096), actor.ask("mark", 0, 4096), actor.ask("run_kernel", 0)], [0, 0, 0])
        self.assertEqual((self.there(), self.charged()), (1024, 1024))
        self.assertEqual([actor.ask("take", 512), self.there(), self.charged()], [0, 1024, 1024])
        self.assertEqual([actor.ask("take", 448), actor.ask("run_kernel", 0), self.there(), self.charged()], [0, 0, 1024, 1024])
        self.assertEqual(actor.ask("take", 2), OUT_OF_MEMORY, "there is nothing left to be moved out")
        self.assertTrue(actor.ask("is_marked", 0, 4096))
        self.assertEqual([actor.ask("give"), actor.ask("give"), self.there(), self.charged()], [0, 0, CONTEXT, CONTEXT])
        self.assertEqual([actor.ask("prefetch", 0, 4096), self.there(), self.charged()], [0, 1024, 1024])
        self.assertEqual([actor.ask("give"), self.there(), self.charged()], [0, CONTEXT, CONTEXT])

    def test_no_advice_and_no_prefetch_brings_more_than_the_limit(self):
        actor = self.governed()
        self.assertEqual([actor.ask("take", 512), actor.ask("managed", 2048), actor.ask("managed", 2048)], [0, 0, 0])
        for advice, device in ((READ_MOSTLY, 0), (PREFERRED, 0), (NOT_PREFERRED, 0), (PREFERRED, HOST), (NOT_PREFERRED, HOST)):
            for block in (1, 2):
                self.assertEqual([actor.ask("advise", block, 2048, advice, device), actor.ask("prefetch", block, 2048),
                                  actor.ask("run_kernel", 0)], [0, 0, 0])
                self.assertLessEqual(self.there(), 1024, (advice, device))
        self.assertEqual([actor.ask("prefetch_batch", 512, 2048, 2048), actor.ask("run_kernel", 0)], [1, 0], "the first is plain memory")
        self.assertEqual([actor.ask("prefetch", 1, 2048, HOST), actor.ask("prefetch", 2, 2048, HOST), self.there()], [0, 0, CONTEXT + 512])

    def test_it_is_not_brought_to_another_device_than_the_one_that_it_is_charged_on(self):
        node = f"T4:8GiB:context={CONTEXT}MiB*2"
        actor = Actor(self.environment, [BIN / "ration", "run", f"--sim={node}", "--gpu", "0,1", "--limit", "1GiB", "--"])
        self.addCleanup(actor.end)
        self.of_the_device["RATION_SIM"] = node
        self.assertEqual([actor.ask("init"), actor.ask("managed", 512), actor.ask("prefetch", 0, 512, 1), actor.ask("advise", 0, 512, PREFERRED, 1),
                          actor.ask("prefetch_batch", 512)], [0] * 5)
        told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=self.of_the_device, capture_output=True, text=True, check=True)
        free = [device["total_bytes"] - device["free_bytes"] for device in json.loads(told.stdout)["devices"]]
        self.assertEqual(free, [(CONTEXT + 512) * MIB, 0])

    def test_a_range_over_two_blocks_that_lie_side_by_side_is_charged_in_both(self):
        for call in (lambda actor, block: actor.ask("prefetch", block, 4096), lambda actor, block: actor.ask("advise", block, 4096, PREFERRED, 0)):
            actor = self.governed()
            self.assertEqual([actor.ask("managed", 2048), actor.ask("managed", 2048)], [0, 0])
            self.assertIn([call(actor, 0), call(actor, 1)], ([0, 1], [1, 0]), "from the lower one on it is a range of managed memory")
            self.assertEqual((actor.ask("run_kernel", 0), self.there(), self.charged()), (0, 1024, 1024))
            actor.end()

    def test_many_ranges_at_once(self):
        actor = self.governed()
        self.assertEqual([actor.ask("managed", 2048), actor.ask("managed", 2048), actor.ask("prefetch_batch", 2048, 2048)], [0, 0, 0])
        self.assertEqual((self.there(), self.charged()), (1024, 1024))

    def test_small_blocks_share_granules_and_go_to_the_host_when_none_is_left(self):
        actor = self.governed()
        self.assertEqual([actor.ask("managed", 0.25) for _ in range(8)], [0] * 8)
        self.assertEqual(self.charged(), CONTEXT + 2)
        rows = {row["id"]: row["bytes"] // MIB for row in self.document("explain", "one")[0]["rows"] if row["bytes"] is not None}
        self.assertEqual((rows["allocated"], rows["managed"]), (0, 2))
        self.assertEqual([actor.ask("take", 1024 - CONTEXT - 2), actor.ask("take", 2)], [0, OUT_OF_MEMORY])
        self.assertEqual([actor.ask("managed", 0.25), actor.ask("run_kernel", 0), self.there()], [0, 0, 1024])

    def test_charged_in_full(self):
        actor = self.governed("--managed", "charge")
        self.assertEqual([actor.ask("managed", 960), actor.ask("take", 2), actor.ask("managed", 4096)], [0, OUT_OF_MEMORY, OUT_OF_MEMORY])
        self.assertEqual((self.there(), self.charged()), (CONTEXT, 1024))
        self.assertEqual([actor.ask("give"), self.charged()], [0, CONTEXT])
        told = subprocess.run([BIN / "ration", "why", "one", f"--sim={NODE}"], env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertIn("--managed resident", told.stdout)

    def test_ignored(self):
        actor = self.governed("--managed", "ignore")
        self.assertEqual([actor.ask("managed", 4096), actor.ask("run_kernel", 0), actor.ask("take", 960)], [0, 0, 0])
        self.assertEqual((self.there(), self.charged()), (1024 + 4096, 1024))

    def test_it_is_explained_and_nothing_is_left_over(self):
        actor = self.governed()
        self.assertEqual([actor.ask("take", 128), actor.ask("managed", 512), actor.ask("fill", 1, 512)], [0, 0, 0])
        rows = {row["id"]: row["bytes"] for row in self.document("explain", "one")[0]["rows"]}
        self.assertEqual((rows["allocated"], rows["managed"], rows["unexplained"]), (128 * MIB, 512 * MIB, 0))
        rows = {row["id"]: row["bytes"] for row in self.document("explain", "--gpu", "0")["rows"]}
        self.assertFalse(rows.get("orphaned"), rows)
        self.assertFalse(rows.get("unexplained"), rows)

    def behind_a_kernel(self, context=""):
        """A program with a block beyond the limit and a prefetch of it behind a kernel that takes its time, in the context of those lines."""
        program = Program(dict(self.environment, RATION_SIM_LATENCY="kernel=300ms"),
                          [BIN / "ration", "run", f"--sim={NODE}", "--limit", "1GiB", "--name", "one", "--"])
        self.addCleanup(program.end)
        self.assertEqual(program.ask(f"""start(); block, module, kernel = c_uint64(), c_void_p(), c_void_p()
def managed(): return cuda.cuMemAllocManaged(byref(block), c_size_t(2048 * MIB), 1)
answer = [managed()]
{context}
busy = stream()
answer += [cuda.cuModuleLoadData(byref(module), b"an image of a form that nobody knows".ljust(64)), cuda.cuModuleGetFunction(byref(kernel), module, b"kernel"),
           cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, busy, None, None), cuda.cuMemPrefetchAsync(block, c_size_t(2048 * MIB), 0, busy),
           cuda.cuStreamQuery(busy)]
enter(0)"""), [0, 0, 0, 0, 0, 600])
        return program

    def test_what_a_stream_has_not_brought_yet_does_not_arrive_after_it_has_made_room(self):
        for context in ("", ANOTHER):
            program = self.behind_a_kernel(context)
            self.assertEqual(program.ask("answer = [take(512)[0], cuda.cuStreamSynchronize(busy)]"), [0, 0])
            self.assertEqual((self.there(), self.device()["peak_bytes"] // MIB, self.charged()), (1024, 1024, 1024), context)
            program.end()

    def test_what_a_stream_has_not_brought_yet_does_not_arrive_in_the_next_block_at_its_address(self):
        program = self.behind_a_kernel(ANOTHER)
        self.assertEqual(program.ask("""before = block.value
answer = [cuda.cuMemFree_v2(block), take(512)[0], managed(), block.value - before, cuda.cuStreamSynchronize(busy)]"""), [0] * 5)
        self.assertLessEqual(self.device()["peak_bytes"] // MIB, 1024)

    def test_who_is_over_a_lowered_limit_by_managed_memory_goes_on(self):
        actor = self.governed()
        self.assertEqual([actor.ask("managed", 2048), actor.ask("run_kernel", 0), self.charged()], [0, 0, 1024])
        subprocess.run([BIN / "ration", "set", "one", f"--sim={NODE}", "--limit", "512MiB", "--yes"], env=self.environment, capture_output=True, check=True)
        told = self.document("explain", "one")[0]["shrinking"]
        self.assertEqual((told["over_bytes"] // MIB, told["movable_bytes"] // MIB), (512, 960))
        self.assertIn("its next request moves that much of its managed memory to the host", told["text"])
        self.assertEqual([actor.ask("take", 2), self.there(), self.charged()], [0, 512, 512])

    def test_it_goes_with_its_process(self):
        actor = self.governed()
        self.assertEqual([actor.ask("managed", 2048), actor.ask("run_kernel", 0), self.charged()], [0, 0, 1024])
        actor.end()
        self.assertEqual(self.there(), 0)


if __name__ == "__main__":
    unittest.main()
