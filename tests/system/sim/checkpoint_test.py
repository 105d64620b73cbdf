#!/usr/bin/env python3
"""Checkpoints of other processes: who waits, whose bytes come back, and what killing leaves behind."""
import json
import os
import pathlib
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).resolve().parent.parent)]
from waiting import until  # noqa: E402
from actor import MIB, Actor  # noqa: E402

BIN = pathlib.Path(os.environ["BUILD_BIN"])
SIM = BIN.parent / "sim"
SOURCE = pathlib.Path(__file__).parents[3]
RUNNING, LOCKED, CHECKPOINTED, FAILED = 0, 1, 2, 3
INVALID_VALUE, OUT_OF_MEMORY, NOT_INITIALIZED, OPERATING_SYSTEM, ILLEGAL_STATE, NOT_READY, NOT_PERMITTED, NOT_SUPPORTED, UNKNOWN = 1, 2, 3, 304, 401, 600, 800, 801, 999


class Checkpoint(unittest.TestCase):
    """A T4 of 1 GiB, of which one context takes 64 MiB."""
    spec = "T4:1GiB:context=64MiB"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "CUDA_"))}
        self.environment.update(RATION_SIM=self.spec, RATION_SIM_DIR=str(self.folder / "node"), LD_LIBRARY_PATH=str(SIM))

    def on_driver(self, name, **changes):
        """The node has that driver from now on, with some of its profile changed."""
        if changes:
            text = (SOURCE / f"sim/drivers/{name}.toml").read_text()
            for key, value in changes.items():
                text, changed = re.subn(f"(?m)^{key} = .*$", f"{key} = {value}", text)
                self.assertEqual(changed, 1, key)
            name = self.folder / f"{name}-changed.toml"
            name.write_text(text)
        self.environment.update(RATION_SIM=f"{self.spec},driver={name}", RATION_SIM_DIR=str(self.folder / f"node-{pathlib.Path(name).stem}"))

    def actor(self, start="init", **more):
        actor = Actor(dict(self.environment, **more))
        self.addCleanup(actor.kill)
        self.assertEqual(actor.ask(start), 0)
        return actor

    def free(self):
        told = subprocess.run([BIN / "ration-sim-truth", "--json"], env=self.environment, capture_output=True, text=True, timeout=60)
        return json.loads(told.stdout)["devices"][0]["free_bytes"] // MIB

    @staticmethod
    def wait_for_sleep(actor):
        """Until it is in the middle of a slow call: nanosleep or clock_nanosleep, on x86-64 and arm64."""
        until(lambda: pathlib.Path(f"/proc/{actor.pid}/syscall").read_text().startswith(("230 ", "35 ", "115 ", "101 ")), "it sleeps")

    def assert_waits(self, actor):
        """Asleep in the system, not turning: no processor time passes, and no answer comes."""
        def used():
            fields = pathlib.Path(f"/proc/{actor.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return fields[0], int(fields[11]) + int(fields[12])
        until(lambda: used()[0] == "S", "it sleeps")
        before = used()[1]
        ready, _, _ = select.select([actor.process.stdout], [], [], 0.3)
        self.assertEqual(ready, [], "it should wait")
        self.assertLessEqual(used()[1] - before, 2)

    def test_memory_moves_away_and_returns_with_its_contents(self):
        target, manager = self.actor(), self.actor("load")
        self.assertEqual([target.ask("take", 600), target.ask("write", 4711)], [0, 0])
        self.assertEqual(manager.ask("state", target.pid), RUNNING)
        self.assertEqual([manager.ask("lock", target.pid), manager.ask("state", target.pid)], [0, LOCKED])
        self.assertEqual(self.free(), 1024 - 664)
        self.assertEqual([manager.ask("checkpoint", target.pid), manager.ask("state", target.pid)], [0, CHECKPOINTED])
        self.assertEqual(self.free(), 1024)
        self.assertEqual([manager.ask("nvml"), manager.ask("processes")], [0, {}])
        other = self.actor()
        self.assertEqual([other.ask("take", 900), other.ask("write", 1), other.ask("processes") if other.ask("nvml") == 0 else None], [0, 0, {str(other.pid): 964}])
        other.kill()
        self.assertEqual([manager.ask("restore", target.pid), manager.ask("state", target.pid)], [0, LOCKED])
        self.assertEqual(self.free(), 1024 - 664)
        self.assertEqual([manager.ask("unlock", target.pid), manager.ask("state", target.pid)], [0, RUNNING])
        self.assertEqual(target.ask("read"), [0, 4711])
        self.assertEqual([target.ask("give"), self.free()], [0, 1024 - 64])

    def test_calls_of_a_locked_process_wait_until_it_is_unlocked(self):
        target, manager = self.actor(), self.actor("load")
        manager.ask("lock", target.pid)
        target.tell("take", 10)
        self.assert_waits(target)
        manager.ask("checkpoint", target.pid)
        self.assert_waits(target)
        manager.ask("restore", target.pid)
        manager.ask("unlock", target.pid)
        self.assertEqual(target.answer(), 0)
        self.assertEqual(self.free(), 1024 - 74)

    def test_each_step_needs_the_state_before_it(self):
        target, manager = self.actor(), self.actor("load")
        steps = {"lock": (RUNNING, LOCKED), "checkpoint": (LOCKED, CHECKPOINTED), "restore": (CHECKPOINTED, LOCKED), "unlock": (LOCKED, RUNNING)}
        chance, state = random.Random(3), RUNNING
        for _ in range(200):
            step = chance.choice(list(steps))
            before, after = steps[step]
            self.assertEqual(manager.ask(step, target.pid), 0 if state == before else ILLEGAL_STATE, (step, state))
            state = after if state == before else state
            self.assertEqual(manager.ask("state", target.pid), state)

    def restore_without_room(self):
        """A checkpointed process whose restore found no room, which there is by now."""
        target, manager, other = self.actor(), self.actor("load"), self.actor()
        self.assertEqual([target.ask("take", 600), target.ask("write", 5)], [0, 0])
        self.assertEqual([manager.ask("lock", target.pid), manager.ask("checkpoint", target.pid), other.ask("take", 500)], [0, 0, 0])
        self.assertEqual([manager.ask("restore", target.pid), manager.ask("state", target.pid)], [OUT_OF_MEMORY, CHECKPOINTED])
        self.assertEqual(self.free(), 1024 - 564)
        self.assertEqual(other.ask("give"), 0)
        return target, manager

    def test_after_a_restore_without_room_no_other_succeeds(self):
        target, manager = self.restore_without_room()
        for _ in range(2):
            self.assertEqual([manager.ask("restore", target.pid), manager.ask("unlock", target.pid)], [OPERATING_SYSTEM, ILLEGAL_STATE])

    def test_a_driver_may_be_better_than_that(self):
        self.on_driver("580", restore_can_be_repeated="true")
        target, manager = self.restore_without_room()
        self.assertEqual([manager.ask("restore", target.pid), manager.ask("unlock", target.pid), target.ask("read")], [0, 0, [0, 5]])

    def test_a_lock_waits_for_a_call_under_way_and_no_longer_than_told(self):
        target, manager = self.actor(RATION_SIM_LATENCY="cuMemAlloc=2s"), self.actor("load")
        target.tell("take", 10)
        self.wait_for_sleep(target)
        self.assertEqual([manager.ask("lock", target.pid, 50), manager.ask("state", target.pid)], [NOT_READY, RUNNING])
        self.assertEqual(manager.ask("lock", target.pid), 0)
        # The call had its time; it either ended before the lock or ends after it, but not while it lasts.
        self.assertIn(self.free(), (1024 - 74, 1024 - 64))
        manager.ask("unlock", target.pid)
        self.assertEqual(target.answer(), 0)

    def test_a_process_that_never_pauses_can_be_locked(self):
        target, manager = self.actor(), self.actor("load")
        for _ in range(20):
            target.tell("churn", 300)
            self.assertEqual(manager.ask("lock", target.pid, 20000), 0)
            self.assertEqual([manager.ask("checkpoint", target.pid), self.free()], [0, 1024])
            self.assertEqual([manager.ask("restore", target.pid), manager.ask("unlock", target.pid)], [0, 0])
            self.assertEqual(target.answer(), 0)

    def test_who_may(self):
        self.on_driver("580", checkpoint_by_owner="true")
        target, idle, manager = self.actor(), self.actor("load"), self.actor("load")
        self.assertEqual(manager.ask("state", 2**22 + 1), -INVALID_VALUE)
        self.assertEqual(manager.ask("state", idle.pid), -NOT_INITIALIZED)
        if os.geteuid() != 0:
            self.skipTest("only root can be two users")
        for path in [self.folder, *self.folder.rglob("*")]:
            path.chmod(0o777)
        self.assertEqual([target.ask("become", 12345), manager.ask("state", target.pid)], [0, RUNNING], "root may")
        same, stranger = self.actor("load"), self.actor("load")
        self.assertEqual([same.ask("become", 12345), stranger.ask("become", 12346)], [0, 0])
        self.assertEqual([stranger.ask("lock", target.pid), stranger.ask("state", target.pid)], [NOT_PERMITTED, -NOT_PERMITTED])
        self.assertEqual([same.ask("lock", target.pid), same.ask("state", target.pid), same.ask("unlock", target.pid)], [0, LOCKED, 0])

    def test_a_checkpoint_of_what_is_not_moved_destroys_the_process(self):
        for driver, moved in (("570", ""), ("580", ""), ("610", "publish"), ("615", "publish")):
            self.on_driver(driver)
            manager = self.actor("load")
            for kind in ("managed", "publish"):
                with self.subTest(driver, kind=kind):
                    target = self.actor()
                    self.assertEqual([target.ask("take", 10), target.ask("write", 7), target.ask(*(("managed", 1) if kind == "managed" else (kind,)))], [0, 0, 0])
                    self.assertEqual(manager.ask("lock", target.pid), 0)
                    if kind == moved:
                        self.assertEqual([manager.ask(step, target.pid) for step in ("checkpoint", "restore", "unlock")], [0, 0, 0])
                        self.assertEqual(target.ask("read"), [0, 7])
                    else:
                        self.assertEqual([manager.ask("checkpoint", target.pid), manager.ask("state", target.pid)], [NOT_SUPPORTED, FAILED])
                        self.assertEqual([manager.ask("unlock", target.pid), target.ask("take", 1)], [ILLEGAL_STATE, UNKNOWN])
                    target.kill()

    def test_without_persistence_mode_the_process_is_killed(self):
        node = self.folder / "node.toml"
        node.write_text('driver = "580"\n[[device]]\nmodel = "T4"\nmemory = "1GiB"\npersistence = "off"\n')
        self.environment["RATION_SIM"] = str(node)
        target, manager = self.actor(), self.actor("load")
        self.assertEqual([manager.ask("lock", target.pid), manager.ask("checkpoint", target.pid)], [0, NOT_PERMITTED])
        self.assertEqual(target.process.wait(60), -signal.SIGKILL)

    def test_a_driver_may_want_root(self):
        self.on_driver("580")
        if os.geteuid() == 0:
            target, manager = self.actor(), self.actor("load")
            self.assertEqual([manager.ask("lock", target.pid), manager.ask("unlock", target.pid)], [0, 0], "root may")
            for path in [self.folder, *self.folder.rglob("*")]:
                path.chmod(0o777)
            self.assertEqual([target.ask("become", 12345), manager.ask("become", 12345)], [0, 0])
        else:
            target, manager = self.actor(), self.actor("load")
        self.assertEqual(manager.ask("lock", target.pid), OPERATING_SYSTEM, "as an H200 answered")

    def test_a_process_that_is_killed_leaves_nothing_in_any_state(self):
        manager = self.actor("load")
        for steps in ((), ("lock",), ("lock", "checkpoint"), ("lock", "checkpoint", "restore"), ("lock", "checkpoint", "restore", "unlock")):
            target = self.actor()
            self.assertEqual([target.ask("take", 500), *[manager.ask(step, target.pid) for step in steps]], [0] * (len(steps) + 1))
            target.tell("take", 100)
            target.kill()
            self.assertEqual(manager.ask("state", target.pid), -INVALID_VALUE)
            self.assertEqual(self.free(), 1024, steps)
            heir = self.actor()
            self.assertEqual(heir.ask("take", 900), 0, "nor does it hold up who comes after it")
            heir.kill()

    def test_many_checkpointed_processes_wait_beside_a_full_device(self):
        manager, parked = self.actor("load"), []
        for number in range(3):
            target = self.actor()
            self.assertEqual([target.ask("take", 900), target.ask("write", number)], [0, 0])
            self.assertEqual([manager.ask("lock", target.pid), manager.ask("checkpoint", target.pid)], [0, 0])
            parked.append(target)
        for number, target in enumerate(parked):
            self.assertEqual([manager.ask("restore", target.pid), manager.ask("unlock", target.pid), target.ask("read")], [0, 0, [0, number]])
            target.kill()

    def test_whoever_dies_while_moving_a_process_leaves_it_failed(self):
        target, slow, manager = self.actor(), self.actor(RATION_SIM_LATENCY="cuCheckpointProcessCheckpoint=60s"), self.actor("load")
        self.assertEqual(slow.ask("lock", target.pid), 0)
        target.tell("take", 10)
        slow.tell("checkpoint", target.pid)
        self.wait_for_sleep(slow)
        self.assertEqual(manager.ask("state", target.pid), LOCKED)
        slow.kill()
        self.assertEqual(manager.ask("state", target.pid), FAILED)
        self.assertEqual(target.answer(), UNKNOWN)
        self.assertEqual([manager.ask("unlock", target.pid), manager.ask("restore", target.pid)], [ILLEGAL_STATE, ILLEGAL_STATE])
        target.kill()
        self.assertEqual(self.free(), 1024)

    def test_killing_at_random_never_loses_a_byte_nor_hangs_anybody(self):
        chance = random.Random(11)
        manager = self.actor("load")
        for _ in range(8):
            targets = [self.actor() for _ in range(2)]
            helper = self.actor("load")
            for target in targets:
                target.tell("churn", 200)
            for step in ("lock", "checkpoint", "restore", "unlock"):
                for target in targets:
                    helper.tell(step, target.pid)
                victim = chance.choice([*targets, helper, None, None])
                if victim is not None:
                    os.kill(victim.pid, signal.SIGKILL)
            for actor in (helper, *targets):
                actor.kill()
            self.assertEqual(self.free(), 1024)
        target = self.actor()
        self.assertEqual([manager.ask("lock", target.pid), manager.ask("checkpoint", target.pid), self.free()], [0, 0, 1024])


if __name__ == "__main__":
    unittest.main()
