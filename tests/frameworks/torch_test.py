#!/usr/bin/env python3
"""Stock PyTorch, as pip installs it, on simulated GPUs and under limits. Usage: torch_test.py PYTHON [unittest options]"""
import pathlib
import subprocess
import sys
import textwrap
import unittest

from case import BUILD, CONTEXT, RATION, SOURCE, FrameworkCase, GiB, MiB


class PyTorch(FrameworkCase):
    prelude = ("import json, os, subprocess, sys\nimport torch\ndevice = 'cuda'\n"
               "def bytes_(n, device='cuda'): return torch.empty(n, dtype=torch.uint8, device=device)\n")

    def test_the_device_is_the_slice(self):
        seen = self.run_program("""
            properties = torch.cuda.get_device_properties(0)
            print(json.dumps([torch.cuda.is_available(), torch.cuda.device_count(), torch.cuda.get_device_name(),
                              torch.cuda.get_device_capability(), properties.total_memory, *torch.cuda.mem_get_info()]))
        """)
        self.assertEqual(seen, [True, 1, "Tesla T4", [7, 5], 4 * GiB, 4 * GiB - CONTEXT, 4 * GiB])

    def test_without_a_limit_it_is_the_card(self):
        self.assertEqual(self.run_program("print(torch.cuda.mem_get_info()[1])", limit="max"), 16 * GiB)

    def test_contents_are_true(self):
        self.run_program("""
            x = torch.arange(1_000_000)
            y = x.to(device)
            assert y.is_cuda and torch.equal(y.cpu(), x)
            half = y[500_000:].clone()
            assert torch.equal(half.cpu(), x[500_000:])
            pinned = torch.randn(1000).pin_memory()
            assert torch.equal(pinned.to(device, non_blocking=True).cpu(), pinned)
            strided = torch.arange(64).reshape(8, 8).to(device)[2:4].cpu()
            assert strided.tolist() == [list(range(16, 24)), list(range(24, 32))]
            assert torch.zeros(100, device=device).cpu().sum() == 0
        """)

    def test_every_number_adds_up_to_the_byte(self):
        allocated, reserved, free, total, nvml, held = self.run_program("""
            kept = [bytes_(n << 20) for n in (1, 3, 20, 300)]
            free, total = torch.cuda.mem_get_info()
            import ctypes
            library = ctypes.CDLL('libnvidia-ml.so.1')
            handle, memory = ctypes.c_void_p(), (ctypes.c_uint64 * 3)()
            assert library.nvmlInit_v2() == 0 and library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(handle)) == 0
            assert library.nvmlDeviceGetMemoryInfo(handle, memory) == 0
            told = json.loads(subprocess.run([%r, 'explain', '--gpu', '0', '-o', 'json'], capture_output=True, text=True).stdout)
            print(json.dumps([torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), free, total, memory[2], told['data']['used_bytes']]))
        """ % RATION)
        self.assertEqual(allocated, 324 * MiB)
        self.assertEqual(total - free, reserved + CONTEXT)
        self.assertEqual(nvml, reserved + CONTEXT)
        self.assertEqual(held, reserved + CONTEXT)

    def test_out_of_memory_names_the_limit_and_the_program_goes_on(self):
        text = self.run_program("""
            try:
                bytes_(5 << 30)
            except torch.cuda.OutOfMemoryError as error:
                text = str(error)
            else:
                raise AssertionError('granted')
            kept = bytes_(3 << 30)
            assert torch.cuda.memory_reserved() == 3 << 30
            del kept
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved() == 0
            print(json.dumps(text))
        """)
        self.assertIn("Tried to allocate 5.00 GiB", text)
        self.assertIn("total capacity of 4.00 GiB", text)

    def test_it_takes_no_byte_more_than_the_limit(self):
        for settings in ("", "expandable_segments:True", "backend:cudaMallocAsync"):
            with self.subTest(settings or "as installed"):
                reserved = self.run_program("""
                    kept = []
                    try:
                        while True: kept.append(bytes_(64 << 20))
                    except torch.cuda.OutOfMemoryError:
                        pass
                    print(torch.cuda.memory_reserved())
                """, PYTORCH_ALLOC_CONF=settings)
                self.assertGreaterEqual(reserved, 4 * GiB - CONTEXT - 96 * MiB)
                peak = self.truth()["devices"][0]["peak_bytes"]
                self.assertLessEqual(peak, 4 * GiB)
                self.assertGreaterEqual(peak, reserved)

    def test_its_own_statistics(self):
        self.run_program("""
            torch.cuda.reset_peak_memory_stats()
            x = bytes_(100 << 20)
            del x
            stats = torch.cuda.memory_stats()
            assert stats['allocated_bytes.all.peak'] == 100 << 20 and stats['allocated_bytes.all.current'] == 0
            assert 'Allocated memory' in torch.cuda.memory_summary()
            torch.cuda.set_per_process_memory_fraction(0.25)
            try: bytes_(2 << 30)
            except torch.cuda.OutOfMemoryError as error: assert '1024.00 MiB allowed' in str(error), error
            else: raise AssertionError('granted')
        """)

    def test_memory_snapshots(self):
        self.run_program("""
            torch.cuda.memory._record_memory_history()
            kept = bytes_(50 << 20)
            snapshot = torch.cuda.memory._snapshot()
            assert sum(segment['allocated_size'] for segment in snapshot['segments']) == 50 << 20
            assert any(event['action'] == 'alloc' for event in snapshot['device_traces'][0])
            torch.cuda.memory._dump_snapshot('snapshot.pickle')
            assert os.path.getsize('snapshot.pickle') > 1000
        """)

    def test_a_small_model_trains_to_its_end(self):
        self.run_program("""
            model = torch.nn.Sequential(
                torch.nn.Conv2d(3, 16, 3, padding=1), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                torch.nn.Flatten(), torch.nn.Linear(16 * 16 * 16, 64), torch.nn.GELU(), torch.nn.Dropout(0.1),
                torch.nn.Linear(64, 10)).to(device)
            optimizer = torch.optim.AdamW(model.parameters())
            scaler = torch.amp.GradScaler()
            for step in range(30):
                images, labels = torch.randn(32, 3, 32, 32, device=device), torch.randint(0, 10, (32,), device=device)
                with torch.autocast('cuda'):
                    loss = torch.nn.functional.cross_entropy(model(images), labels)
                optimizer.zero_grad()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            torch.save(model.state_dict(), 'model.pt')
            model.load_state_dict(torch.load('model.pt'))
            assert torch.cuda.max_memory_allocated() > 8 << 20
        """)

    def test_a_transformer_and_a_recurrent_network(self):
        self.run_program("""
            layer = torch.nn.TransformerEncoderLayer(64, 4, batch_first=True).to(device)
            layer(torch.randn(2, 16, 64, device=device)).sum().backward()
            for kind in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
                net = kind(16, 32, num_layers=2, bidirectional=True).to(device)
                out, _ = net(torch.randn(5, 3, 16, device=device))
                assert out.shape == (5, 3, 64)
                out.sum().backward()
                assert all(p.grad is not None for p in net.parameters())
        """)

    def test_streams_events_and_graphs(self):
        self.run_program("""
            stream = torch.cuda.Stream()
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            with torch.cuda.stream(stream):
                start.record(); x = torch.ones(1000, device=device) * 2; end.record()
            stream.synchronize()
            assert start.elapsed_time(end) >= 0
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph): y = x + 1
            for _ in range(3): graph.replay()
            torch.cuda.synchronize()
        """)

    def test_two_processes_share_one_limit(self):
        self.run_program("""
            import multiprocessing
            def child(pipe):
                kept = bytes_(1 << 30)
                pipe.send(torch.cuda.mem_get_info())
                pipe.recv()
            if __name__ == '__main__':
                context = multiprocessing.get_context('fork')   # CUDA has not started yet
                ours, theirs = context.Pipe()
                process = context.Process(target=child, args=(theirs,))
                process.start()
                free, total = ours.recv()
                kept = bytes_(2 << 30)
                assert total == 4 << 30
                try: bytes_(1 << 30)
                except torch.cuda.OutOfMemoryError: pass
                else: raise AssertionError('two processes have more than their limit')
                ours.send(None)
                process.join()
                more = bytes_(1 << 30)
        """)

    def test_tensors_go_to_other_processes(self):
        self.run_program("""
            import pathlib
            pathlib.Path('worker.py').write_text('\\n'.join([
                'def receive(queue, done):',
                '    tensor = queue.get()',
                '    assert tensor.is_cuda and tensor.cpu()[123] == 123',
                '    del tensor',
                '    done.set()']))
            sys.path.insert(0, '.')
            import worker, torch.multiprocessing as multiprocessing
            context = multiprocessing.get_context('spawn')
            queue, done = context.Queue(), context.Event()
            process = context.Process(target=worker.receive, args=(queue, done))
            process.start()
            tensor = torch.arange(1 << 20).to(device)
            queue.put(tensor)
            assert done.wait(120)
            process.join()
            assert process.exitcode == 0
        """)

    def test_data_parallel_over_two_cards(self):
        self.run_program("""
            assert torch.cuda.device_count() == 2
            model = torch.nn.DataParallel(torch.nn.Linear(32, 8).to('cuda:0'))
            replicas = torch.nn.parallel.replicate(model.module, [0, 1])
            assert replicas[1].weight.device.index == 1
            everywhere = torch.nn.parallel.comm.broadcast(torch.arange(1000).to('cuda:0'), [0, 1])
            assert everywhere[1].device.index == 1 and torch.equal(everywhere[1].cpu(), torch.arange(1000))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            for _ in range(5):
                loss = model(torch.randn(16, 32, device='cuda:0')).sum()
                optimizer.zero_grad(); loss.backward(); optimizer.step()
            assert torch.cuda.memory_allocated(0) > 0
            x = torch.arange(1000).to('cuda:0').to('cuda:1')
            assert torch.equal(x.cpu(), torch.arange(1000))
        """, node="T4:16GiB*2", options=("--gpu", "0,1"))

    def test_a_limit_may_change_while_it_runs(self):
        running = self.start("""
            print('ready', flush=True)
            for line in sys.stdin:
                try: kept = bytes_(int(line) << 20)
                except torch.cuda.OutOfMemoryError as error: print('refused', torch.cuda.mem_get_info()[1] >> 20, flush=True)
                else:
                    del kept
                    torch.cuda.empty_cache()
                    print('granted', torch.cuda.mem_get_info()[1] >> 20, flush=True)
        """, options=("--name", "live"))
        self.addCleanup(running.stdout.close)
        self.addCleanup(running.stderr.close)

        def ask(mib):
            running.stdin.write(f"{mib}\n")
            running.stdin.flush()
            return running.stdout.readline().strip()

        def set_limit(limit):
            subprocess.run([RATION, "set", "live", "--limit", limit, "--yes"], env=self.environment, check=True, capture_output=True)

        self.assertEqual(running.stdout.readline(), "ready\n")
        self.assertEqual(ask(3000), "granted 4096")
        set_limit("2GiB")
        self.assertEqual(ask(3000), "refused 2048")
        set_limit("8GiB")
        self.assertEqual(ask(6000), "granted 8192")
        running.stdin.close()
        self.assertEqual(running.wait(60), 0)

    def test_our_pool_under_pytorch(self):
        self.environment["PYTHONPATH"] = str(SOURCE / "python")
        self.environment["RATION_LIBRARY"] = str(BUILD / "lib/libration.so.1")
        self.run_program("""
            import ration, ration.torch
            ration.torch.use()
            x = torch.arange(1000).to(device)
            assert torch.equal(x.cpu(), torch.arange(1000))
            info = ration.config.experimental.get_memory_info('GPU:0')
            assert 8000 <= info['current'] < 1 << 20, info
            ration.torch.set_per_process_memory_fraction(0.25)
            try: bytes_(2 << 30)
            except RuntimeError as error: assert 'CUDA out of memory' in str(error) and 'limit 1.00 GiB' in str(error), error
            else: raise AssertionError('granted')
            model = torch.nn.Linear(64, 8).to(device)
            for _ in range(10): model(torch.randn(32, 64, device=device)).sum().backward()
        """)


class Mathematics(FrameworkCase):
    """The stand-ins for cuFFT, cuSOLVER, cuSPARSE and cuRAND: they start, take their workspaces, and say "done" where memory
    held something else before."""

    prelude = PyTorch.prelude + textwrap.dedent("""
        def spoil():     # what kernels do not write is not 0 afterwards
            torch.full((16 << 20,), 77, dtype=torch.uint8).to(device)
        def took(work):
            torch.cuda.synchronize(); torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            result = work()
            held = sum(part.untyped_storage().nbytes() for part in (result if isinstance(result, tuple) else (result,)))
            return torch.cuda.max_memory_allocated() - before - held
    """)

    def test_transforms_take_their_workspace(self):
        smooth, rough, two, half = self.run_program("""
            print(json.dumps([took(lambda x=x: torch.fft.fft(x)) for x in (
                torch.ones(1 << 20, dtype=torch.complex64).to(device), torch.ones(1_000_003, dtype=torch.complex64).to(device))]
                + [took(lambda x=torch.ones(3, 512, 512, dtype=torch.complex128).to(device): torch.fft.ifft2(x)),
                   took(lambda x=torch.ones(1 << 18, dtype=torch.half).to(device): torch.fft.rfft(x))]))
        """)
        self.assertEqual(smooth, 8 << 20)
        self.assertAlmostEqual(rough, 8 * 8 * 1_000_003, delta=2 << 20)   # PyTorch leaves up to 1 MiB of a block unsplit
        self.assertEqual(two, 3 * 512 * 512 * 16)
        self.assertAlmostEqual(half, (1 << 18) * 4, delta=512)

    def test_dense_solvers_take_their_workspace_and_succeed(self):
        told = self.run_program("""
            spoil()
            one, batch, right = torch.eye(512).to(device), torch.eye(8).repeat(5, 1, 1).to(device), torch.ones(512, 3).to(device)
            linalg = torch.linalg
            for matrix in (one, batch):
                for name in ('inv', 'svd', 'eigh', 'eigvalsh', 'svdvals', 'qr', 'cholesky', 'lu', 'det', 'pinv', 'ldl_factor'):
                    getattr(linalg, name)(matrix)
            linalg.solve(one, right); linalg.lstsq(one, right); torch.cholesky_solve(right, one)
            for driver in ('gesvd', 'gesvdj', 'gesvda'): linalg.svd(one, driver=driver)
            print(json.dumps([took(lambda: linalg.cholesky(one)), took(lambda: linalg.eigh(one))]))
        """)
        for bytes_ in told:
            self.assertGreaterEqual(bytes_, 512 * 512 * 4)

    def test_a_workspace_counts_against_the_limit(self):
        self.run_program("""
            x = torch.ones(40_000_003, dtype=torch.complex64).to(device)     # 320 MB, and 2,560 MB to transform it
            torch.fft.fft(x)
            y = bytes_(1 << 30)
            try: torch.fft.fft(x)
            except torch.OutOfMemoryError: pass
            else: raise AssertionError('granted')
        """)

    def test_sparse_matrices(self):
        self.run_program("""
            spoil()
            places, values = torch.tensor([[0, 1, 1], [2, 0, 2]]), torch.tensor([3., 4, 5])
            coo = torch.sparse_coo_tensor(places, values, (2, 3))
            csr, square = coo.to_sparse_csr().to(device), torch.eye(4).to_sparse_csr().to(device)
            coo, dense = coo.to(device), torch.ones(3, 4).to(device)
            assert (coo @ dense).shape == (csr @ dense).shape == (2, 4)
            assert (csr @ torch.ones(3).to(device)).shape == (2,)
            torch.sparse.mm(coo, coo.t()); csr + csr
            torch.sparse.sampled_addmm(csr, torch.ones(2, 5).to(device), torch.ones(5, 3).to(device))
            torch.triangular_solve(torch.ones(4, 2).to(device), square)
            torch.eye(4).to_sparse_bsr((2, 2)).to(device) @ torch.ones(4, 4).to(device)
            assert csr.values().cpu().tolist() == [3, 4, 5]
            big = torch.sparse_csr_tensor(torch.arange(0, 1 << 20, 2), torch.zeros((1 << 20) - 2, dtype=torch.long), torch.ones((1 << 20) - 2),
                                          ((1 << 19) - 1, 2), check_invariants=False).to(device)
            assert took(lambda: big @ torch.ones(2, 1).to(device)) >= 16 * ((1 << 20) - 2)
        """)

    def test_a_generator_has_its_state_and_what_is_not_offered_says_so(self):
        self.run_program("""
            import ctypes
            torch.zeros(1, device=device)
            random = ctypes.CDLL('libcurand.so.10')
            generator, free = ctypes.c_void_p(), torch.cuda.mem_get_info()[0]
            assert random.curandCreateGenerator(ctypes.byref(generator), 100) == 0
            numbers = bytes_(4000)
            free = torch.cuda.mem_get_info()[0]
            assert random.curandGenerateUniform(generator, ctypes.c_void_p(numbers.data_ptr()), ctypes.c_size_t(1000)) == 0
            assert torch.cuda.mem_get_info()[0] < free
            assert random.curandDestroyGenerator(generator) == 0
            assert torch.cuda.mem_get_info()[0] == free
            sparse = ctypes.CDLL('libcusparse.so.12')
            sparse.cusparseGetErrorString.restype = ctypes.c_char_p
            status = sparse.cusparseCreateSlicedEll()
            assert status == 10 and b'cusparseCreateSlicedEll is not simulated' in sparse.cusparseGetErrorString(status)
        """)


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
            assert 'starts anew under a limit' in told, told
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


class Launchers(FrameworkCase):
    """Neither the first program nor the environment says which CUDA version will be asked for."""

    def started(self, *command):
        program = pathlib.Path(self.folder.name, "train.py")
        program.write_text("import os, torch\nprint(os.environ.get('LOCAL_RANK'), (torch.ones(4, device='cuda') + 1).shape[0], torch.cuda.mem_get_info()[1] >> 20)\n")
        self.environment["PATH"] = "/usr/bin:/bin"
        done = subprocess.run([RATION, "run", "--sim=T4", "--limit", "2GiB", "--", *command, str(program)],
                              env=self.environment, capture_output=True, text=True, timeout=180)
        self.assertEqual(done.returncode, 0, done.stderr[-4000:])
        return sorted(done.stdout.splitlines())

    def test_a_shell(self):
        self.assertEqual(self.started("bash", "-c", f'timeout 100 env X=1 {self.python} "$0"'), ["None 4 2048"])

    def test_torchrun(self):
        torchrun = pathlib.Path(self.python).parent / "torchrun"
        self.assertEqual(self.started(str(torchrun), "--nproc-per-node", "2"), ["0 4 2048", "1 4 2048"])


class Streams(FrameworkCase):
    """Work that takes time: what one stream still uses is not handed out on another."""
    USED_ELSEWHERE = """
        import torch
        side = torch.cuda.Stream()
        for size in (40, 8 << 20):
            tensor = torch.empty(size, device='cuda')
            place = tensor.data_ptr()
            with torch.cuda.stream(side):
                torch.cuda._sleep(2_000_000_000)              # more than a second
                tensor.record_stream(side)
            busy = torch.cuda.Event()
            busy.record(side)
            del tensor
            taken = torch.empty(size, device='cuda')
            in_use = busy.query() or torch.cuda.current_stream().query()
            %s
            side.synchronize()
    """

    def test_pytorchs_own_allocator(self):
        self.run_program(self.USED_ELSEWHERE % "assert taken.data_ptr() != place and not busy.query()")

    def test_rations_pool(self):
        """It hands the block out at once, on a stream that waits for the other one."""
        self.run_program("import ration.torch; ration.torch.use()\n" + textwrap.dedent(
            self.USED_ELSEWHERE % "assert taken.data_ptr() != place or not in_use, 'it was taken from whoever uses it'"),
            PYTHONPATH=str(SOURCE / "python"), RATION_LIBRARY=str(BUILD / "lib/libration.so.1"))

    def test_pinned_memory_and_events(self):
        self.run_program("""
            import torch
            device, pinned = torch.empty(1 << 16, device='cuda'), torch.empty(1 << 16).pin_memory()
            place = pinned.data_ptr()
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            torch.cuda._sleep(1_590_000_000)                      # a second of a T4
            device.copy_(pinned, non_blocking=True)
            end.record()
            del pinned
            assert torch.empty(1 << 16).pin_memory().data_ptr() != place and not end.query()
            torch.cuda.synchronize()
            assert 999 < begin.elapsed_time(end) < 1001, begin.elapsed_time(end)
        """)

    def test_every_kernel_takes_its_time_where_that_is_asked_for(self):
        self.run_program("""
            import torch
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a = torch.ones(1000, device='cuda')
            begin.record()
            for _ in range(10): a = a + a
            end.record()
            end.synchronize()
            assert begin.elapsed_time(end) >= 100, begin.elapsed_time(end)
        """, RATION_SIM_LATENCY="kernel=10ms")


class Distributed(FrameworkCase):
    """NCCL between processes, each with a card of its own."""
    JOIN = textwrap.dedent("""
        import os, signal, sys, torch, torch.distributed as dist
        rank = int(os.environ['RANK'])
        torch.cuda.set_device(rank)
        dist.init_process_group('nccl', device_id=torch.device('cuda', rank) if os.environ.get('EAGER') else None)
        def of(value): return torch.tensor([value] * 4).cuda()
        def told(tensor): return tensor.cpu().unique().tolist()
    """)

    def ranks(self, program, **variables):
        file = pathlib.Path(self.folder.name, "ranks.py")
        file.write_text(self.JOIN + textwrap.dedent(program))
        torchrun = pathlib.Path(self.python).parent / "torchrun"
        done = subprocess.run([RATION, "run", "--sim=T4*2", "--limit", "1GiB", "--", str(torchrun), "--standalone", "--nproc-per-node", "2", str(file)],
                              env={**self.environment, **variables}, capture_output=True, text=True, cwd=self.folder.name, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-4000:])

    def test_what_only_moves_is_true_and_each_rank_has_its_limit(self):
        self.ranks("""
            t = of(rank + 1); dist.broadcast(t, 1); assert told(t) == [2]
            all_of = [of(0), of(0)]; dist.all_gather(all_of, of(rank + 5)); assert [told(t) for t in all_of] == [[5], [6]]
            if rank == 0: dist.send(of(42), 1)
            else: t = of(0); dist.recv(t, 0); assert told(t) == [42]
            t = of(rank + 1); dist.all_reduce(t); assert told(t) == [rank + 1]     # waits, and computes nothing
            both, alone = dist.new_group([0, 1]), dist.new_group([1])
            t = of(rank + 10); dist.broadcast(t, 0, group=both); assert told(t) == [10]
            if rank == 1: t = of(7); dist.broadcast(t, 1, group=alone); assert told(t) == [7]
            try: torch.empty(1 << 30, dtype=torch.uint8, device='cuda')
            except torch.OutOfMemoryError: pass
            else: raise AssertionError('granted')
            dist.destroy_process_group()
        """)

    def test_a_model_trains_in_two_processes(self):
        self.ranks("""
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8).cuda(), device_ids=[rank])
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(3):
                model(torch.randn(16, 64, device='cuda')).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
            group = dist.new_group([0, 1])                       # splits the first one
            t = of(rank); dist.broadcast(t, 1, group=group); assert told(t) == [1]
            open(f'trained{rank}', 'w').close()
            dist.barrier()
            assert os.path.exists(f'trained{1 - rank}'), 'a barrier waits'
            dist.destroy_process_group()
        """, EAGER="1")

    def test_who_waits_for_a_rank_that_was_killed_is_told_so(self):
        self.run_program("""
            import os, subprocess, sys
            join = %r
            os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='29511', WORLD_SIZE='2')
            other = subprocess.Popen([sys.executable, '-c', join + "dist.barrier(); os.kill(os.getpid(), signal.SIGKILL)"], env={**os.environ, 'RANK': '1'})
            os.environ['RANK'] = '0'
            exec(join)
            dist.barrier()
            try: dist.broadcast(of(1), 1)
            except RuntimeError as error: assert 'another rank has ended' in str(error), error
            else: raise AssertionError('went on')
            assert other.wait() == -signal.SIGKILL
            os._exit(0)
        """ % self.JOIN, node="T4*2")


class BadInput(FrameworkCase):
    def test_a_version_that_is_not_simulated(self):
        done = subprocess.run([RATION, "run", "--sim=T4", "--sim-cuda", "11", "--limit", "1GiB", "--", "true"],
                              env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("E1425 ration: CUDA 11 is not simulated.", done.stderr)


if __name__ == "__main__":
    FrameworkCase.python = sys.argv.pop(1)
    unittest.main(verbosity=2)
