#!/usr/bin/env python3
"""Memory of CUDA graphs under a limit: what a graph needs on each device is known before the driver is asked.

Judged by the simulator's own record of the most that each device ever held.
"""
import unittest

from scene import CONTEXT, MIB, Scene

# Graphs at random in several threads, each of which keeps at most ROOM MiB of sums alive: says what was denied, and what failed.
AT_RANDOM = """
import random, threading
bad, denied = [], 0
def play(seed):
    global denied
    chance, mine, room = random.Random(seed), [], ROOM
    enter(0)
    own = stream()
    def drop(entry):
        graph, left, total = entry
        mine.remove(entry)
        for address in left:
            if cuda.cuMemFreeAsync(c_uint64(address), own) not in (0, 1): bad.append("free")
        cuda.cuStreamSynchronize(own)
        if graph.destroy(): bad.append("destroy")
    for _ in range(CALLS):
        what = chance.randrange(10)
        if mine and (what < 2 or sum(total for _, _, total in mine) > room):
            drop(chance.choice(mine))
        elif mine and what < 7:
            graph, left, _ = chance.choice(mine)
            result = graph.upload(own) if chance.randrange(8) == 0 else graph.launch(own)
            if result == 2: denied += 1
            elif result not in (0, 1): bad.append(result)
        elif what == 7:
            for device in range(DEVICES): cuda.cuDeviceGraphMemTrim(device)
        else:
            graph, live, gone, ends, total = Graph(), [], [], [], 0
            for _ in range(chance.randrange(2, 9)):
                before = chance.sample(ends, min(len(ends), chance.randrange(3)))
                if live and chance.randrange(3) == 0:
                    node, address = live.pop(chance.randrange(len(live)))
                    ends.append(graph.free(address, list({node, *before})))
                else:
                    mib = 2 * chance.randrange(1, room // 16)
                    if total + mib > room: continue
                    total += mib
                    live.append(graph.take(mib, before, chance.randrange(DEVICES)))
                    ends.append(live[-1][0])
            if chance.randrange(2):
                joined = graph.join(ends)
                for _, address in live: graph.free(address, [joined])
                live = []
            flags = AUTO_FREE * chance.randrange(2)
            while mine and sum(total for _, _, total in mine) + total > room: drop(mine[0])
            if graph.instantiate(flags) == 0: mine.append((graph, [address for _, address in live], total))
            else: bad.append("instantiate")
    while mine: drop(mine[0])
threads = [threading.Thread(target=play, args=(SEED * 100 + thread,)) for thread in range(THREADS)]
for thread in threads: thread.start()
for thread in threads: thread.join()
for device in range(DEVICES): cuda.cuDeviceGraphMemTrim(device)
answer = [bad, denied]
"""


class Graphs(Scene):
    NAME = "graphs"

    def test_a_launch_that_does_not_fit_takes_nothing_for_an_instant(self):
        program = self.program()
        self.assertEqual(program.ask("start(); graph = temporary(*[40] * 300); answer = [graph.launch() for _ in range(20)] + [graph.upload()]"), [2] * 21)
        self.assertEqual(self.truth("peak"), [CONTEXT])
        self.assertEqual((self.rows("peak_bytes"), self.rows("denials")), ([CONTEXT], [21]))
        self.assertIn("11.7 GiB", self.ration("why"))

    def test_what_a_launch_leaves_to_the_next_one_is_not_taken_for_less(self):
        program = self.program()
        program.ask("""start(); graph = Graph()
kept = graph.take(400); others = [graph.take(40) for _ in range(10)]; joined = graph.join([node for node, _ in [kept, *others]])
for _, address in others: graph.free(address, [joined])
assert graph.instantiate(AUTO_FREE) == 0""")
        self.assertEqual(program.ask("answer = [graph.launch() for _ in range(3)]"), [0, 0, 0])
        self.assertEqual((self.rows("used_bytes"), self.rows("peak_bytes"), self.truth("used")), ([CONTEXT + 800],) * 3)
        self.assertEqual(program.ask("answer = [cuda.cuMemFreeAsync(c_uint64(kept[1]), None), cuda.cuCtxSynchronize(), cuda.cuDeviceGraphMemTrim(0)]"), [0, 0, 0])
        self.assertEqual(program.ask("answer = [take(500)[0], graph.launch()]"), [0, 2], "460 MiB are left")
        self.assertEqual(self.truth("peak"), [CONTEXT + 800])

    def test_a_graph_that_fits_just_so_is_launched_again_and_again(self):
        program = self.program()
        self.assertEqual(program.ask("start(); one, other = temporary(900), temporary(500, 460); answer = [g.launch() for g in [one, other] * 4]"), [0] * 8)
        self.assertEqual(program.ask("answer = [one.upload(), one.upload(), one.launch(), one.launch(), other.launch()]"), [0] * 5)
        self.assertEqual(program.ask("answer = [cuda.cuDeviceGraphMemTrim(0), take(900)[0], one.launch()]"), [0, 0, 2])
        self.assertEqual((self.rows("used_bytes"), self.rows("peak_bytes")), (self.truth("used"), self.truth("peak")))

    def test_each_device_of_a_graph_is_charged_for_what_stands_there(self):
        program = self.program("--gpu", "0,1", cards=2)
        launched = program.ask("""start(2); graphs = [Graph() for _ in range(5)]; answer = []
for graph in graphs:
    graph.take(300, device=0), graph.take(2, device=1)
    assert graph.instantiate() == 0
    answer.append(graph.launch())""")
        self.assertEqual(launched, [0, 0, 0, 2, 2])
        self.assertEqual(self.truth("peak"), [CONTEXT + 900, CONTEXT + 6])
        self.assertEqual((self.rows("used_bytes"), self.rows("peak_bytes")), (self.truth("used"), self.truth("peak")))

    def test_a_graph_takes_nothing_of_a_device_that_was_not_granted(self):
        program = self.program("--gpu", "0", cards=2)
        self.assertEqual(program.ask("start(); graph = Graph(); graph.take(300, device=1), graph.take(2, device=0); answer = [graph.instantiate(), graph.launch(), graph.upload()]"),
                         [0, 2, 2])
        self.assertEqual(self.truth("peak"), [CONTEXT, 0])
        self.assertIn("GPU 1 was not granted to graphs", self.ration("why"))

    def test_a_graph_instantiated_with_its_upload_is_admitted_first(self):
        program = self.program()
        made = program.ask("""start(); answer = []
for _ in range(3):
    graph = Graph(); graph.take(400); answer.append(graph.instantiate(UPLOAD))
    if answer[-1] == 0: answer.append(graph.launch())""")
        self.assertEqual(made, [0, 0, 0, 0, 2])
        self.assertEqual(self.truth("peak"), [CONTEXT + 800])

    def test_a_graph_that_frees_what_another_one_left_gives_the_room_back(self):
        program = self.program()
        self.assertEqual(program.ask("""start(); keeper = Graph(); _, address = keeper.take(600); assert keeper.instantiate() == 0
freer = Graph(); freer.free(address); assert freer.instantiate() == 0
answer = [graph.launch() for graph in [keeper, freer] * 3] + [take(600)[0], keeper.launch()]"""), [0] * 7 + [2])
        self.assertEqual(self.truth("peak"), [CONTEXT + 600])

    def test_a_launch_that_waits_for_memory_keeps_no_other_launch_waiting(self):
        """The one that frees what the other waits for launches a graph of its own first."""
        program = self.program("--on-deny", "wait")
        program.ask("""start(); big, small = temporary(500), temporary(10); assert small.launch() == 0; _, held = take(600)
import threading
def wait(): global waited; enter(0); waited = big.launch()
waiting = threading.Thread(target=wait); waiting.start()""")
        while self.rows("state") != ["waiting"]:
            pass
        self.assertEqual(program.ask("answer = [small.launch(stream()), cuda.cuMemFree_v2(c_uint64(held)), waiting.join(), waited]"), [0, 0, None, 0])
        self.assertEqual(self.rows("denials"), [0])

    def random_graphs(self, room, seed, cards, calls=150, threads=3):
        program = self.program("--gpu", ",".join(map(str, range(cards))), cards=cards)
        program.ask(f"start({cards})")
        bad, denied = program.ask(f"DEVICES, ROOM, SEED, CALLS, THREADS = {cards}, {room}, {seed}, {calls}, {threads}\n" + AT_RANDOM)
        self.assertEqual(bad, [])
        for peak in self.truth("peak"):
            self.assertLessEqual(peak, 1024)
        self.assertEqual(self.truth("used"), [CONTEXT] * cards)
        self.assertEqual(self.rows("used_bytes"), [CONTEXT] * cards)
        return denied

    def test_random_graphs_never_pass_the_limit(self):
        for cards, seed in ((1, 1), (2, 2), (2, 3)):
            with self.subTest(cards=cards, seed=seed):
                self.setUp()
                self.assertGreater(self.random_graphs(3000, seed, cards), 0, "the limit was met")

    def test_random_graphs_of_which_all_allocations_fit_together_are_never_denied(self):
        for cards, seed in ((1, 11), (2, 12), (2, 13)):
            with self.subTest(cards=cards, seed=seed):
                self.setUp()
                self.assertEqual(self.random_graphs(320, seed, cards), 0)


if __name__ == "__main__":
    unittest.main()
