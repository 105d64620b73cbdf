#!/usr/bin/env python3
"""PyTorch in programs that nobody starts with `ration run`: limits from inside, notebooks, what guards and reports count.
Run by the Python that has it."""
import pathlib
import json
import subprocess
import textwrap
import unittest

from case import CONTEXT, FrameworkCase, GiB, MiB


class FromInside(FrameworkCase):
    """Nobody starts these programs with `ration run`."""

    def test_a_limit_set_before_the_import(self):
        told = self.run_inside("""
            import json, ration
            ration.limit('2GiB')
            import torch
            blocks = []
            try:
                while True: blocks.append(torch.empty(256 << 20, dtype=torch.uint8, device='cuda'))
            except torch.OutOfMemoryError as error: assert 'total capacity of 2.00 GiB' in str(error), error
            print(json.dumps([len(blocks), torch.cuda.mem_get_info()[1]]))
        """)
        self.assertEqual(told, f"[7, {2 * GiB}]\n")
        self.assertLessEqual(self.truth()["devices"][0]["peak_bytes"], 2 * GiB)

    def test_it_changes_while_the_program_runs_and_takes_the_cache(self):
        self.run_inside("""
            import ration, torch
            def fits(mib):
                try: torch.empty(mib << 20, dtype=torch.uint8, device='cuda')
                except torch.OutOfMemoryError: return False
                return True
            ration.limit('4GiB')
            assert not fits(5000) and fits(3000)
            assert ration.workload()['used'] > 3000 << 20        # PyTorch keeps what was freed
            ration.limit('1GiB')
            assert ration.workload()['used'] < 200 << 20         # and gave it back
            assert fits(800) and not fits(1000)
            ration.limit('6GiB')
            assert fits(5000)
        """)

    def test_torch_was_imported_first(self):
        """NVIDIA's cuBLAS, which torch loads at its import, opens the driver when it is loaded."""
        self.run_inside("""
            import torch, warnings
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter('always')
                import ration
            assert 'driver is loaded already' in str(told[0].message) and 'ration.reexec()' in str(told[0].message)
            for late in (lambda: ration.limit('1GiB'), lambda: ration.share('part', '50%'), ration.activate):
                try: late()
                except RuntimeError as error: assert 'driver is loaded already' in str(error)
                else: raise AssertionError('silence')
        """)

    def test_a_script_that_imports_torch_first_starts_anew(self):
        script = pathlib.Path(self.folder.name, "late.py")
        script.write_text(textwrap.dedent("""
            import warnings; warnings.simplefilter('ignore')
            import torch, ration
            ration.reexec('1GiB')
            try: torch.empty(1 << 30, dtype=torch.uint8, device='cuda')
            except torch.OutOfMemoryError: print('denied')
        """))
        done = subprocess.run([str(self.python), str(script)], env=self.inside(), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "denied\n"), done.stderr)

    def test_the_tensors_of_a_share_stay_within_it(self):
        """With a pool of their own: also those that PyTorch serves from its cache, those of backward(), and the next ones."""
        told = self.run_inside("""
            import json, ration, torch
            ration.limit('4GiB')
            first, second = (ration.share(name, size, own_pool=True) for name, size in (('first', '2GiB'), ('second', '1GiB')))
            def fill(mib=128):
                blocks = []
                try:
                    while True: blocks.append(torch.empty(mib << 20, dtype=torch.uint8, device='cuda'))
                except torch.OutOfMemoryError: return len(blocks) * mib
            with first: taken = [fill()]
            with second:
                weight = torch.zeros(64 << 18, device='cuda', requires_grad=True)        # 64 MiB
                for _ in range(4): (weight * 2).sum().backward()
                taken.append(fill() + 128)                                                # weight and gradient
            with first: taken.append(fill())
            with second: taken.append(fill() + 128)
            assert second.info()['used'] <= second.info()['limit'], second.info()
            first.limit('512MiB')
            first.trim()                                                                  # the pool's cache goes back
            assert first.info()['used'] == 0, first.info()
            print(json.dumps(taken))
        """)
        first, trained, again, more = json.loads(told)
        self.assertEqual((first, again), (2048, 2048))
        self.assertLessEqual(max(trained, more), 1024)
        self.assertGreaterEqual(trained, 768)

    def test_a_gan_whose_parts_change_their_shares_while_it_trains(self):
        """The parts of a GAN in pools of their own, 40 % and 60 %, from epoch 10 on half and half: each part is held to
        its share of that epoch, and what it holds survives the change."""
        told = self.run_inside("""
            import json, ration, torch
            ration.limit('2GiB')
            schedule = ration.Schedule({'generator': [(0, '40%'), (10, '50%')], 'discriminator': [(0, '60%'), (10, '50%')]})
            weights, most = {}, {}
            for epoch in range(12):
                schedule.at(epoch)
                if epoch in (0, 10):      # a pool that goes gives back what no tensor holds
                    pools = {name: torch.cuda.MemPool() for name in ('generator', 'discriminator')}
                for name, pool in pools.items():
                    with ration.share(name) as share, torch.cuda.use_mem_pool(pool):
                        if name not in weights: weights[name] = torch.arange(16 << 20).to('cuda')   # 128 MiB
                        blocks = []
                        try:
                            while True: blocks.append(torch.empty(64 << 20, dtype=torch.uint8, device='cuda'))
                        except torch.OutOfMemoryError: pass
                        now = share.info()
                        assert now['used'] <= now['limit'], (epoch, name, now)
                        most[epoch, name] = len(blocks)
                        del blocks
                    torch.cuda.empty_cache()
                assert all(torch.equal(weight.cpu(), torch.arange(16 << 20)) for weight in weights.values())
            print(json.dumps([most[epoch, name] for epoch in (0, 9, 10, 11) for name in pools]))
        """)
        # Blocks beside 128 MiB of weights: of 40 and 60 %, then of 50 each, less the context, which is nobody's share.
        self.assertEqual(told, "[10, 16, 10, 16, 14, 12, 14, 12]\n")


class Notebook(FrameworkCase):
    """A kernel as Jupyter starts it; the cells come from a program of their own, as from a front end."""
    FRONT_END = """
        from jupyter_client.manager import start_new_kernel
        import atexit
        manager, client = start_new_kernel(kernel_name='python3')
        atexit.register(manager.shutdown_kernel, now=True)
        def run(*lines, timeout=100):
            told = []
            def collect(message): told.append(message['content'].get('text') or message['content'].get('evalue') or '')
            client.execute_interactive(chr(10).join(lines), timeout=timeout, output_hook=collect, allow_stdin=False)
            return ''.join(told).strip()
        take = ("import os, torch", "try: kept = torch.empty(1 << 30, dtype=torch.uint8, device='cuda')",
                "except torch.OutOfMemoryError: print('denied')", "else: print('granted')")
    """

    def cells(self, program):
        done = subprocess.run([str(self.python), "-W", "ignore", "-c", textwrap.dedent(self.FRONT_END) + textwrap.dedent(program)],
                              env={**self.inside(), "JUPYTER_RUNTIME_DIR": self.folder.name, "IPYTHONDIR": self.folder.name},
                              capture_output=True, text=True, cwd=self.folder.name, timeout=240)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-4000:])

    def test_a_limit_in_the_first_cell(self):
        self.cells("""
            assert run("import ration; ration.limit('1GiB'); print('set')") == 'set'
            assert run(*take) == 'denied'
            assert run("ration.limit('2GiB'); print('set')") == 'set' and run(*take) == 'granted'
        """)

    def test_torch_came_first_so_the_kernel_is_started_anew(self):
        self.cells("""
            assert run(*take) == 'granted'
            told = run("import ration", "ration.limit('1GiB')")
            assert 'driver is loaded already' in told and '%ration restart' in told, told
            process = run("print(os.getpid())")
            told = run("%load_ext ration", "%ration restart 1GiB")
            assert 'starts again under a limit' in told, told
            while b'RATION_BOOK=' not in open(f'/proc/{process}/environ', 'rb').read(): pass    # the old one does not answer any more
            client.wait_for_ready(timeout=100)
            assert run("import os, ration; print(os.getpid(), ration.is_governed())") == process + ' True'
            assert run(*take) == 'denied'
        """)


class Counted(FrameworkCase):
    """Guards and reports count what PyTorch counts."""

    def test_a_guard_counts_tensors_and_sees_what_was_freed_again(self):
        self.run_inside("""
            import ration, torch
            def take(mib): return torch.empty(mib << 20, dtype=torch.uint8, device='cuda')
            kept = take(100)
            with ration.MemoryGuard('450MiB') as outer:
                take(400)
                with ration.MemoryGuard('100MiB') as inner: take(50)
            assert (outer.growth, outer.peak, inner.growth, inner.peak) == (400 << 20, 500 << 20, 50 << 20, 150 << 20)
            try:
                with ration.MemoryGuard('450MiB', name='augment'): take(300), take(200)
            except MemoryError as error: assert "'augment' took 500 MiB" in str(error) and 'PyTorch cuda:0 500 MiB' in str(error), error
            else: raise AssertionError('not caught')
        """)

    def test_a_framework_that_starts_within_the_block(self):
        self.run_inside("""
            import ration
            with ration.MemoryGuard('1GiB') as guard:
                import torch
                kept = torch.empty(300 << 20, dtype=torch.uint8, device='cuda')
            assert guard.growth == 300 << 20, guard.growth
        """)

    def test_details(self):
        self.run_inside("""
            import ration, torch
            kept = torch.empty(300 << 20, dtype=torch.uint8, device='cuda')
            details, = ration.get_memory_details()
            assert details['device_name'] == 'Tesla T4' and details['memory_total'] == 16 << 30
            told = details['frameworks']['PyTorch cuda:0']
            assert told['allocated'] == told['peak'] == told['reserved'] == 300 << 20, told
            assert details['memory_used'] == (300 << 20) + %d, details
        """ % CONTEXT)


if __name__ == "__main__":
    unittest.main(verbosity=2)
