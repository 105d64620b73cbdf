#!/usr/bin/env python3
"""Stock PyTorch, as pip installs it, on simulated GPUs and under limits.
Run by the Python that has it."""
import pathlib
import subprocess
import textwrap
import unittest

from case import BUILD, CONTEXT, LIMITS, RATION, SOURCE, TORCH, FrameworkCase, GiB, MiB


class PyTorch(FrameworkCase):
    prelude = TORCH

    def test_sorts_on_a_card_between_two_that_it_was_compiled_for(self):
        # CUB takes the variant of its kernels by the version that a loaded one says of itself: 8.6 on an L4, which is 8.9.
        self.assertEqual(self.run_program("print(torch.sort(bytes_(100000)).indices.numel())", node="L4"), 100000)

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

    def test_keras_stays_within_every_limit(self):
        self.environment["KERAS_BACKEND"] = "torch"
        self.compiled_functions_stay_within(LIMITS, """
            import keras
            model = keras.Sequential([keras.layers.Input([32]), keras.layers.Dense(64, activation='relu'), keras.layers.Dense(8)])
            def nth(n): model.predict_on_batch(torch.zeros(1 + n, 32))
        """, "torch.OutOfMemoryError")

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

    def test_a_runtime_opened_by_its_path_is_the_simulated_one(self):
        """vLLM's sleep mode looks libcudart up in /proc/self/maps; others open the file of the wheel."""
        self.run_program("""
            import ctypes, pathlib
            torch.zeros(1, device='cuda')
            mapped = {line.split()[-1] for line in open('/proc/self/maps') if 'libcudart' in line}
            wheel = [str(path) for path in pathlib.Path(sys.prefix).glob('lib/python3*/site-packages/nvidia/*/lib/libcudart.so.*')]
            assert wheel and not mapped.intersection(wheel), mapped
            for path in wheel + sorted(mapped):
                count = ctypes.c_int()
                assert ctypes.CDLL(path).cudaGetDeviceCount(ctypes.byref(count)) == 0 and count.value == 1, path
        """)

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
        self.environment["PYTHONPATH"] = str(SOURCE / "libration/python")
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


class Launchers(FrameworkCase):
    """Neither the first program nor the environment says which CUDA version will be asked for."""

    def started(self, *command):
        program = pathlib.Path(self.folder.name, "train.py")
        program.write_text(textwrap.dedent("""
            import os, torch
            elements = (torch.ones(4, device='cuda') + 1).shape[0]
            line = f"{os.environ.get('LOCAL_RANK')} {elements} {torch.cuda.mem_get_info()[1] >> 20}\\n"
            os.write(1, line.encode())  # In one piece: the ranks share one pipe.
        """))
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


class BadInput(FrameworkCase):
    def test_a_version_that_is_not_simulated(self):
        done = subprocess.run([RATION, "run", "--sim=T4", "--sim-cuda", "11", "--limit", "1GiB", "--", "true"],
                              env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("E1425 ration: CUDA 11 is not simulated.", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
