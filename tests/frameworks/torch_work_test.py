#!/usr/bin/env python3
"""PyTorch's work on simulated GPUs: the mathematics libraries, streams that take time, its profiler, NCCL between
processes.
Run by the Python that has it."""
import pathlib
import subprocess
import textwrap
import unittest

from case import BUILD, RATION, SOURCE, TORCH, FrameworkCase, MiB


class Mathematics(FrameworkCase):
    """The stand-ins for cuFFT, cuSOLVER, cuSPARSE and cuRAND: they start, take their workspaces, and say "done" where memory
    held something else before."""

    prelude = TORCH + textwrap.dedent("""
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


class Bindings(FrameworkCase):
    """cuda.bindings, which PyTorch brings: the driver's functions in Python."""

    def test_the_driver_is_held(self):
        self.run_program("""
            from cuda.bindings import driver
            def call(function, *arguments):
                status, *results = getattr(driver, function)(*arguments)
                assert status == driver.CUresult.CUDA_SUCCESS, (function, status)
                return results[0] if len(results) == 1 else results
            call('cuInit', 0)
            device = call('cuDeviceGet', 0)
            call('cuCtxSetCurrent', call('cuDevicePrimaryCtxRetain', device))
            assert call('cuMemGetInfo')[1] == 2 << 30
            blocks = [call('cuMemAlloc', 256 << 20) for _ in range(7)]
            status, _ = driver.cuMemAlloc(256 << 20)
            assert status == driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY, status
            call('cuMemFree', blocks.pop())
            stream = call('cuStreamCreate', 0)
            call('cuMemFreeAsync', call('cuMemAllocAsync', 100 << 20, stream), stream)
            sent, back = bytearray(b'contents'), bytearray(8)
            import ctypes
            at = lambda buffer: ctypes.addressof(ctypes.c_char.from_buffer(buffer))
            call('cuMemcpyHtoD', blocks[0], at(sent), 8)
            call('cuMemcpyDtoH', at(back), blocks[0], 8)
            assert sent == back
        """, limit="2GiB")


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
            PYTHONPATH=str(SOURCE / "libration/python"), RATION_LIBRARY=str(BUILD / "lib/libration.so.1"))

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


class Profiler(FrameworkCase):
    """torch.profiler, which hears of the device through the stand-in for CUPTI."""

    prelude = TORCH + textwrap.dedent("""
        from torch.profiler import ProfilerActivity, profile
        def profiled(work, **options):
            torch.cuda.init()
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], **options) as seen:
                work()
                torch.cuda.synchronize()
            seen.export_chrome_trace('trace.json')
            events = json.load(open('trace.json'))['traceEvents']
            return seen, lambda category: [event for event in events if event.get('cat') == category]
    """)

    def test_memory_kernels_copies_and_fills_are_in_the_trace(self):
        self.run_program("""
            def work():
                global kept
                kept = bytes_(32 << 20)
                gone = torch.ones(1 << 20).to(device)
                (gone + 1).cpu()
                kept.zero_()
                gone.clone()
            seen, of = profiled(work, profile_memory=True)
            copies = [(event['name'], event['args']['bytes']) for event in of('gpu_memcpy')]
            assert copies == [('Memcpy HtoD (Pageable -> Device)', 4 << 20), ('Memcpy DtoH (Device -> Pageable)', 4 << 20),
                              ('Memcpy DtoD (Device -> Device)', 4 << 20)], copies
            assert [(event['name'], event['args']['bytes']) for event in of('gpu_memset')] == [('Memset (Device)', 32 << 20)]
            kernel, = of('kernel')
            calls = {event['args']['correlation']: event for event in of('cuda_runtime')}
            launch = calls[kernel['args']['correlation']]
            assert launch['name'] == 'cudaLaunchKernel' and not of('cuda_driver'), launch
            assert [calls[event['args']['correlation']]['name'] for event in of('gpu_memcpy') + of('gpu_memset')] == ['cudaMemcpyAsync'] * 3 + ['cudaMemsetAsync']
            assert [event['name'] for event in calls.values()].count('cudaMalloc') == 2 and 'cudaDeviceSynchronize' in str(calls)
            assert 'elementwise_kernel' in kernel['name'] and 'add' in kernel['name'].lower(), kernel
            assert {event['ph'] for event in of('ac2g') if event['id'] == launch['args']['correlation']} == {'s', 'f'}
            add = next(event for event in of('cpu_op') if event['name'] == 'aten::add')
            assert kernel['args']['External id'] == add['args']['External id']
            assert add['ts'] <= launch['ts'] and kernel['ts'] + kernel['dur'] <= add['ts'] + add['dur']
            memory = [event['args'] for event in of('cpu_instant_event') if event['args']['Device Type'] == 1]
            assert sum(event['Bytes'] for event in memory) == torch.cuda.memory_allocated() == 32 << 20, memory
            assert memory[-1]['Total Allocated'] == 32 << 20 and memory[-1]['Total Reserved'] == torch.cuda.memory_reserved()
            table = {row.key: row for row in seen.key_averages()}
            assert table['aten::empty'].self_device_memory_usage >= 32 << 20, table['aten::empty']
            assert table['Memset (Device)'].self_device_time_total > 0
        """)

    def test_kernels_stand_on_their_stream_for_as_long_as_they_take(self):
        self.run_program("""
            side = torch.cuda.Stream()
            def work():
                torch.cuda._sleep(30 * 1_590_000)   # milliseconds of a T4
                torch.cuda._sleep(10 * 1_590_000)
                with torch.cuda.stream(side): torch.cuda._sleep(20 * 1_590_000)
            torch.cuda._sleep(1)
            _, of = profiled(work)
            kernels = sorted(of('kernel'), key=lambda event: event['ts'])
            assert len(kernels) == 3 and len({event['tid'] for event in kernels}) == 2, kernels
            first, behind = [event for event in kernels if event['tid'] == kernels[0]['tid']]
            aside, = [event for event in kernels if event['tid'] != kernels[0]['tid']]
            for event, time in (first, 30), (behind, 10), (aside, 20): assert abs(event['dur'] - time * 1000) < 1000, (event, time)
            assert abs(behind['ts'] - first['ts'] - first['dur']) < 1000
            assert aside['ts'] < first['ts'] + first['dur'], 'at the same time'
        """)

    def test_training_is_profiled_step_by_step(self):
        self.run_program("""
            model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.Flatten(), torch.nn.Linear(8 * 36, 10)).to(device)
            optimiser = torch.optim.AdamW(model.parameters())
            traces = []
            def ready(seen):
                seen.export_chrome_trace('trace%d.json' % len(traces))
                traces.append(json.load(open('trace%d.json' % len(traces)))['traceEvents'])
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True, on_trace_ready=ready,
                         schedule=torch.profiler.schedule(wait=1, warmup=1, active=1, repeat=2)) as seen:
                for step in range(6):
                    model(torch.ones(4, 3, 8, 8, device=device)).sum().backward()
                    optimiser.step(); optimiser.zero_grad()
                    seen.step()
            kernels = [sum(event.get('cat') == 'kernel' for event in trace) for trace in traces]
            assert len(kernels) == 2 and kernels[0] == kernels[1] > 5, kernels
        """)


class Distributed(FrameworkCase):
    """NCCL between processes, each with a card of its own."""
    JOIN = textwrap.dedent("""
        import os, signal, sys, torch, torch.distributed as dist
        rank = int(os.environ['RANK'])
        torch.cuda.set_device(rank)
        dist.init_process_group(os.environ.get('BACKEND', 'nccl'), device_id=torch.device('cuda', rank) if os.environ.get('EAGER') else None)
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

    def test_every_collective_brings_what_it_moves(self):
        """Reductions leave each rank with its own part: docs/frameworks.md."""
        self.ranks("""
            other = 1 - rank
            def t(*values): return torch.tensor(values, device='cuda')
            def equal(tensors, *expected): assert [each.tolist() for each in tensors] == list(expected), tensors
            whole = t(0, 0, 0, 0); dist.all_gather_into_tensor(whole, t(rank, rank + 10)); equal([whole], [0, 10, 1, 11])
            parts = [t(0), t(0)] if rank == 0 else None; dist.gather(t(rank + 4), parts, 0)
            if rank == 0: equal(parts, [4], [5])
            part = t(0); dist.scatter(part, [t(11), t(12)] if rank == 0 else None, 0); equal([part], [11 + rank])
            pair = t(0, 0); dist.all_to_all_single(pair, t(10 * rank + 1, 10 * rank + 2)); equal([pair], [1 + rank, 11 + rank])
            uneven = t(0, 0, 0); dist.all_to_all_single(uneven, t(*(3 * rank + i for i in (1, 2, 3))), [1 + rank, 2 - rank], [1 + rank, 2 - rank])
            equal([uneven], [[1, 4, 5], [2, 3, 6]][rank])
            parts = [t(0), t(0)]; dist.all_to_all(parts, [t(10 * rank + 1), t(10 * rank + 2)]); equal(parts, [1 + rank], [11 + rank])
            got = t(0)
            for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, t(rank + 30), other), dist.P2POp(dist.irecv, got, other)]): work.wait()
            equal([got], [30 + other])
            dist.barrier()
            mine = t(rank, 5); dist.all_reduce(mine, dist.ReduceOp.MAX); equal([mine], [rank, 5])
            mine = t(rank, 5); dist.reduce(mine, 0); equal([mine], [rank, 5])
            part = t(0); dist.reduce_scatter_tensor(part, t(10 * rank, 10 * rank + 1)); equal([part], [11 * rank])
            dist.destroy_process_group()
        """)

    def test_objects_reach_every_rank_over_gloo_beside_nccl(self):
        """Over NCCL alone PyTorch adds up their sizes in kernels: docs/frameworks.md says what to write."""
        self.ranks("""
            objects = [{'a': 1}, 'two' * 50] if rank == 0 else [None, None]
            dist.broadcast_object_list(objects, 0); assert objects == [{'a': 1}, 'two' * 50], objects
            everyone = [None, None]; dist.all_gather_object(everyone, 'x' * (rank + 1)); assert everyone == ['x', 'xx'], everyone
            mine = [None]; dist.scatter_object_list(mine, ['a', 'b' * 100] if rank == 0 else None, 0); assert mine == [['a', 'b' * 100][rank]], mine
            objects = [None, None] if rank == 0 else None; dist.gather_object(('of', rank), objects, 0)
            assert rank == 1 or objects == [('of', 0), ('of', 1)], objects
            objects = [{'to': 1}] if rank == 0 else [None]
            dist.send_object_list(objects, 1) if rank == 0 else dist.recv_object_list(objects, 0)
            assert objects == [{'to': 1}], objects
            on_device = of(rank); dist.broadcast(on_device, 1); assert told(on_device) == [1]
            dist.destroy_process_group()
        """, BACKEND="cpu:gloo,cuda:nccl")

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
