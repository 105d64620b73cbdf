#!/usr/bin/env python3
"""Limits of cgroups, as NVML sets them from release 615 on. Folders stand for the cgroups: an ordinary user can make none."""
import os
import pathlib
import random
import sys
import tempfile
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parent), str(pathlib.Path(__file__).resolve().parent.parent)]
import waiting  # noqa: E402, F401
from actor import Actor  # noqa: E402

SIM = pathlib.Path(os.environ["BUILD_BIN"]).parent / "sim"
MAX = 2**64 - 1
OUT_OF_MEMORY = 2
INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, OPERATING_SYSTEM = 2, 3, 4, 6, 17


class Groups(unittest.TestCase):
    """A T4 of 1 GiB, of which one context takes 64 MiB."""
    spec = "T4:1GiB:context=64MiB,driver=615.71"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.environment = {key: value for key, value in os.environ.items() if not key.startswith(("RATION_", "CUDA_"))}
        self.environment.update(RATION_SIM=self.spec, RATION_SIM_DIR=str(self.folder / "node"), LD_LIBRARY_PATH=str(SIM))

    def group(self, name):
        path = self.folder / "cgroup" / name
        path.mkdir(parents=True, exist_ok=True)
        (path / "cgroup.procs").touch()
        return path

    def actor(self, group=None, **more):
        actor = Actor(dict(self.environment, **({"RATION_SIM_CGROUP": str(group)} if group else {}), **more))
        self.addCleanup(actor.kill)
        return actor

    def tenant(self, group):
        actor = self.actor(group)
        self.assertEqual(actor.ask("init"), 0)
        return actor

    def manager(self, **more):
        if os.geteuid() != 0:
            self.skipTest("only root sets limits")
        actor = self.actor(**more)
        self.assertEqual(actor.ask("nvml"), 0)
        return actor

    def test_a_limit_holds_for_all_processes_of_the_group_together(self):
        group, manager = self.group("job"), self.manager()
        self.assertEqual(manager.ask("limit", group, 0, 512), 0)
        one, two, outsider = self.tenant(group), self.tenant(group), self.tenant(self.group("other"))
        self.assertEqual(one.ask("take", 300), 0)
        self.assertEqual(two.ask("take", 100), OUT_OF_MEMORY, "two contexts of 64 and 300 leave 84")
        self.assertEqual(two.ask("take", 84), 0)
        self.assertEqual(one.ask("take", 2), OUT_OF_MEMORY)
        self.assertEqual(manager.ask("limits", group), [0, 512, 512])
        self.assertEqual(outsider.ask("take", 400), 0, "nobody else is bound by it")
        self.assertEqual(two.ask("give"), 0)
        self.assertEqual(one.ask("take", 84), 0)

    def test_totals_show_the_limit(self):
        group, manager = self.group("job"), self.manager()
        manager.ask("limit", group, 0, 512)
        tenant, outsider = self.tenant(group), self.tenant(None)
        tenant.ask("take", 100)
        self.assertEqual(tenant.ask("info"), [0, 512 - 164, 512])
        self.assertEqual([tenant.ask("nvml"), tenant.ask("memory")], [0, [0, 512, 512 - 164, 164]])
        self.assertEqual(outsider.ask("info"), [0, 1024 - 228, 1024])
        self.assertEqual(manager.ask("memory"), [0, 1024, 1024 - 228, 228])
        self.assertEqual(outsider.ask("take", 700), 0)
        self.assertEqual(tenant.ask("info")[1], 1024 - 928, "a limit reserves nothing")

    def test_every_limit_on_the_way_to_the_root_binds(self):
        parent, manager = self.group("pod"), self.manager()
        manager.ask("limit", parent, 0, 400)
        manager.ask("limit", self.group("pod/a"), 0, 300)
        a, b, like = self.tenant(self.group("pod/a")), self.tenant(self.group("pod/b")), self.tenant(self.group("pod-b"))
        self.assertEqual(a.ask("take", 240), OUT_OF_MEMORY)
        self.assertEqual(a.ask("take", 200), 0)
        self.assertEqual(b.ask("take", 100), OUT_OF_MEMORY, "the parent's")
        self.assertEqual(b.ask("take", 72), 0)
        self.assertEqual(manager.ask("limits", parent), [0, 400, 400])
        self.assertEqual(manager.ask("limits", parent / "b"), [0, MAX, 136])
        self.assertEqual(like.ask("take", 400), 0, "a name that only begins alike is another group")

    def test_a_context_counts_and_managed_memory_does_not(self):
        group, manager = self.group("job"), self.manager()
        manager.ask("limit", group, 0, 63)
        self.assertEqual(self.actor(group).ask("init"), OUT_OF_MEMORY)
        manager.ask("limit", group, 0, 100)
        tenant = self.tenant(group)
        self.assertEqual(tenant.ask("managed", 500), 0)
        self.assertEqual(tenant.ask("take", 40), OUT_OF_MEMORY)
        self.assertEqual(tenant.ask("take", 36), 0)
        self.assertEqual(manager.ask("limits", group), [0, 100, 100])
        self.assertEqual([tenant.ask("give"), tenant.ask("give"), tenant.ask("take", 36)], [0, 0, 0])
        self.assertEqual(manager.ask("limits", group), [0, 100, 100])

    def test_what_is_held_stays_when_a_limit_is_lowered(self):
        group, manager = self.group("job"), self.manager()
        tenant = self.tenant(group)
        self.assertEqual(tenant.ask("take", 500), 0)
        self.assertEqual(manager.ask("limit", group, 0, 100), 0)
        self.assertEqual(tenant.ask("info"), [0, 0, 100])
        self.assertEqual(tenant.ask("take", 2), OUT_OF_MEMORY)
        self.assertEqual(manager.ask("limits", group), [0, 100, 564])
        self.assertEqual(manager.ask("limit", group, 0, "max"), 0)
        self.assertEqual(manager.ask("limits", group), [0, MAX, 564])
        self.assertEqual(tenant.ask("take", 400), 0)

    def test_a_killed_process_makes_room_in_its_group(self):
        group, manager = self.group("job"), self.manager()
        manager.ask("limit", group, 0, 512)
        for _ in range(3):
            tenant = self.tenant(group)
            self.assertEqual(tenant.ask("take", 448), 0)
            tenant.kill()
        self.assertEqual(manager.ask("limits", group), [0, 512, 0])

    def test_a_group_that_is_removed_has_no_limits_when_it_is_made_again(self):
        group, manager = self.group("job"), self.manager()
        manager.ask("limit", group, 100, 512)
        self.assertEqual(manager.ask("limits", group), [100, 512, 0])
        kept = group.rename(group.with_name("moved"))  # its inode lives, so that the new folder has another
        self.assertEqual(manager.ask("limits", group), OPERATING_SYSTEM)
        self.assertEqual(manager.ask("limits", self.group("job")), [0, MAX, 0])
        self.assertEqual(manager.ask("limits", kept), [0, MAX, 0])

    def test_what_is_refused(self):
        group, manager = self.group("job"), self.manager()
        (self.folder / "plain").mkdir()
        self.assertEqual(manager.ask("limit", self.folder / "nothing", 0, 512), OPERATING_SYSTEM)
        self.assertEqual(manager.ask("limit", self.folder / "plain", 0, 512), NOT_FOUND)
        self.assertEqual(manager.ask("limit", group, 513, 512), INVALID_ARGUMENT)
        self.assertEqual(manager.ask("limit", group, 0, 1025), INVALID_ARGUMENT)
        self.assertEqual(manager.ask("limit", group, 512, 512), 0)
        self.assertEqual(manager.ask("limits", str(group) + "/."), [512, 512, 0])
        older = self.manager(RATION_SIM="T4:1GiB,driver=610.57")
        self.assertEqual([older.ask("limit", group, 0, 512), older.ask("limits", group)], [NOT_SUPPORTED, NOT_SUPPORTED])
        self.assertEqual([self.tenant(None).ask("version"), older.ask("load"), older.ask("version")], [13040, 0, 13030])

    def test_only_root_sets_and_everybody_may_ask(self):
        group, manager = self.group("job"), self.manager()
        manager.ask("limit", group, 0, 512)
        for path in [self.folder, *self.folder.rglob("*")]:
            path.chmod(0o777)
        user = self.actor(group)
        self.assertEqual([user.ask("nvml"), user.ask("become", 12345)], [0, 0])
        self.assertEqual(user.ask("limit", group, 0, "max"), NO_PERMISSION)
        self.assertEqual(user.ask("limits", group), [0, 512, 0])

    def test_random_groups_hold_what_a_model_says(self):
        chance = random.Random(7)
        manager = self.manager()
        groups = [self.group(name) for name in ("a", "a/b", "a/b/c", "a/d", "e")]
        limit = dict.fromkeys(groups, MAX)
        tenants = [(self.tenant(group), group, []) for group in groups + groups[1:3]]

        def used(group):
            return sum(64 + sum(held) for _, own, held in tenants if own == group or group in own.parents)
        for _ in range(200):
            if chance.random() < 0.2:
                group = chance.choice(groups)
                limit[group] = chance.choice([MAX, 100, 200, 300, 500])
                self.assertEqual(manager.ask("limit", group, 0, "max" if limit[group] == MAX else limit[group]), 0)
            actor, group, held = chance.choice(tenants)
            if held and chance.random() < 0.4:
                self.assertEqual(actor.ask("give"), 0)
                held.pop()
            else:
                size = 2 * chance.randrange(1, 60)
                fits = sum(64 + sum(other) for _, _, other in tenants) + size <= 1024
                fits = fits and all(used(above) + size <= limit[above] for above in (group, *group.parents) if above in limit)
                self.assertEqual(actor.ask("take", size), 0 if fits else OUT_OF_MEMORY)
                held += [size] if fits else []
            asked = chance.choice(groups)
            self.assertEqual(manager.ask("limits", asked), [0, limit[asked], used(asked)])


if __name__ == "__main__":
    unittest.main()
