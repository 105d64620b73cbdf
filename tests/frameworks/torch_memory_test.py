#!/usr/bin/env python3
"""PyTorch's caching allocator on a simulated card and under a limit: what its own tests of device memory ask, in words of ours.
Run by the Python that has it."""
import pathlib
import subprocess
import textwrap
import unittest

from case import CONTEXT, TORCH, FrameworkCase, GiB

CHECKS = textwrap.dedent("""
    import gc
    MiB = 1 << 20
    def denied(text, call, *arguments, kind=torch.OutOfMemoryError):
        try: call(*arguments)
        except kind as error: assert text in str(error), error
        else: raise AssertionError((call, arguments))
    def statistics(*names): return tuple(torch.cuda.memory_stats()[name] for name in names)
    def empty():
        gc.collect(); torch.cuda.empty_cache()
        assert torch.cuda.memory_reserved() == torch.cuda.memory_allocated() == 0
""")


class Memory(FrameworkCase):
    prelude = TORCH + CHECKS

    def test_statistics_snapshots_and_history(self):
        self.run_program("""
            block = torch.cuda.caching_allocator_alloc(1)
            assert torch.cuda.memory_allocated() == 512
            torch.cuda.caching_allocator_delete(block)
            empty()
            torch.cuda.reset_peak_memory_stats(); torch.cuda.reset_accumulated_memory_stats()
            torch.cuda.memory._record_memory_history()
            small, large = bytes_(1000), bytes_(30 * MiB)
            assert statistics('allocated_bytes.all.current', 'requested_bytes.all.current', 'allocation.all.allocated') == (1024 + 30 * MiB, 1000 + 30 * MiB, 2)
            assert statistics('reserved_bytes.all.current', 'segment.all.current', 'inactive_split_bytes.all.current') == (32 * MiB, 2, 2 * MiB - 1024)
            segments = torch.cuda.memory_snapshot()
            assert sum(segment['total_size'] for segment in segments) == torch.cuda.memory_reserved()
            assert sorted(block['size'] for segment in segments for block in segment['blocks'] if block['state'] == 'active_allocated') == [1024, 30 * MiB]
            del small, large
            assert statistics('allocated_bytes.all.current', 'allocated_bytes.all.freed', 'allocated_bytes.all.peak') == (0, 1024 + 30 * MiB, 1024 + 30 * MiB)
            torch.cuda.reset_peak_memory_stats()
            assert torch.cuda.max_memory_allocated() == 0 and torch.cuda.max_memory_reserved() == 32 * MiB
            empty()
            actions = [event['action'] for event in torch.cuda.memory._snapshot()['device_traces'][0]]
            assert {'segment_alloc', 'alloc', 'free_requested', 'free_completed', 'segment_free'} <= set(actions), actions
            assert 'CUDA OOMs: 0' in torch.cuda.memory_summary()
        """)

    def test_a_smaller_cache(self):
        """The table of docs/pytorch.md."""
        for settings, held, retries in (("", 2000, 5), ("per_process_memory_fraction:0.9", 1920, 5), ("garbage_collection_threshold:0.6", 2000, 5),
                                        ("garbage_collection_threshold:0.6,per_process_memory_fraction:1.0", 2000, 5),
                                        ("garbage_collection_threshold:0.6,per_process_memory_fraction:0.9", 1560, 0), ("expandable_segments:True", 944, 0)):
            with self.subTest(settings):
                self.run_program(f"""
                    kept, most = bytes_(256 * MiB), 0
                    for size in range(100, 600, 20):
                        bytes_(size * MiB)
                        free, total = torch.cuda.mem_get_info()
                        most = max(most, total - free)
                    assert (most // MiB, torch.cuda.memory_stats()['num_alloc_retries']) == ({held}, {retries}), (most / MiB, torch.cuda.memory_stats()['num_alloc_retries'])
                """, limit="2GiB", PYTORCH_ALLOC_CONF=settings)

    def test_a_snapshot_becomes_a_recording_with_the_same_numbers(self):
        """Also one whose history began late, and one without a history."""
        work, record = textwrap.dedent("""
            for i in range(20):
                large, small = bytes_(12 * MiB), bytes_(400000)
                if i % 5 == 0: kept.append(bytes_(1000 * i + 40))
                with torch.cuda.stream(torch.cuda.Stream()): aside = bytes_(4 * MiB)
                del large, small, aside
        """), "torch.cuda.memory._record_memory_history()\n"
        counted = textwrap.dedent("""
            blocks = [block for segment in torch.cuda.memory_snapshot() for block in segment['blocks'] if block['state'] == 'active_allocated']
            torch.cuda.memory._dump_snapshot('memory.pickle')
            print(json.dumps([torch.cuda.max_memory_reserved(), torch.cuda.memory_reserved(), len(blocks), sum(block['requested_size'] for block in blocks)]))
        """)
        for name, program in {"whole": record + work, "late": work + record + work, "none": work}.items():
            with self.subTest(name):
                peak, at_end, blocks, requested = self.run_program("kept = []\n" + program + counted)
                found = self.imported("memory.pickle")
                (held,) = found["held"]
                self.assertEqual((held["bytes"], held["bytes_at_end"]), (peak, at_end))
                self.assertEqual([sum(group[key] for group in found["never_freed"]) for key in ("count", "total_bytes")], [blocks, requested])

    def test_out_of_memory_and_what_happens_after_it(self):
        self.run_program("""
            kept = torch.zeros(1024, device='cuda')
            denied('Tried to allocate 800000000.00 GiB', bytes_, 800000000 << 30)
            denied('Tried to allocate more than 1EB memory', bytes_, 8000000000 << 30, kind=RuntimeError)
            total = torch.cuda.get_device_properties(0).total_memory
            assert total == torch.cuda.mem_get_info()[1] == 4 << 30
            half = bytes_(total // 2)
            denied('Tried to allocate 2.00 GiB', bytes_, total // 2)
            assert statistics('num_ooms')[0] >= 2 and statistics('num_alloc_retries')[0] >= 1
            del half
            half = bytes_(total // 2)                                    # the same again has room
            assert kept.cpu().sum() == 0
            seen = []
            torch._C._cuda_attach_out_of_memory_observer(lambda device, asked, whole, free: seen.append((asked, whole)))
            denied('', bytes_, 3 << 30)
            assert seen == [(3 << 30, 4 << 30)], seen
        """)
        self.assertLessEqual(self.truth()["devices"][0]["peak_bytes"], 4 * GiB)

    def test_a_fraction_of_what_it_sees(self):
        self.run_program("""
            set_fraction = torch.cuda.set_per_process_memory_fraction
            denied('Invalid type', set_fraction, 1, kind=TypeError)
            for wrong in (-0.1, 2.0): denied('Invalid fraction value', set_fraction, wrong, kind=ValueError)
            set_fraction(0.5)
            assert torch.cuda.get_per_process_memory_fraction() == 0.5
            bytes_(int((4 << 30) * 0.499))
            empty()
            denied('2.00 GiB allowed', bytes_, int((4 << 30) * 0.501))
            set_fraction(1.0)
            bytes_(int((4 << 30) * 0.9))
        """)

    def test_settings(self):
        self.run_program("""
            settings = torch.cuda.memory._set_allocator_settings
            settings('roundup_power2_divisions:4')
            block = bytes_(45 * MiB)                                     # quarters between 32 and 64 MiB
            assert torch.cuda.memory_allocated() == 48 * MiB
            settings('roundup_power2_divisions:1')
            del block; empty()
            settings('max_split_size_mb:40')
            large = bytes_(60 * MiB); del large
            small = bytes_(25 * MiB)                                     # the block of 60 MiB is not split for it
            assert torch.cuda.memory_reserved() == 60 * MiB + 26 * MiB, torch.cuda.memory_reserved()
            del small; empty()
            settings('garbage_collection_threshold:0.3')
            torch.cuda.set_per_process_memory_fraction(0.5)
            first = bytes_(700 * MiB); del first
            second = bytes_(800 * MiB)                                   # beyond 30 % of its share: what is unused goes first
            assert torch.cuda.memory_reserved() == 800 * MiB, torch.cuda.memory_reserved()
            denied('Unrecognized', settings, 'no_such_setting:1', kind=ValueError)
        """)

    def test_expandable_segments(self):
        self.run_program("""
            blocks = [bytes_(50 * MiB) for _ in range(10)]
            segments = torch.cuda.memory_snapshot()
            assert len(segments) == 1 and segments[0]['is_expandable'] and segments[0]['total_size'] == 500 * MiB, segments
            del blocks[4:]
            torch.cuda.empty_cache()                                     # the segment becomes smaller
            assert torch.cuda.memory_reserved() == 200 * MiB
            denied('', bytes_, 4 << 30)
            assert torch.cuda.memory_allocated() == 200 * MiB
        """, PYTORCH_ALLOC_CONF="expandable_segments:True")
        self.assertLessEqual(self.truth()["devices"][0]["peak_bytes"], 4 * GiB)

    def test_pools_of_a_programs_own(self):
        self.run_program("""
            outside = bytes_(30 * MiB)
            pool, other = torch.cuda.MemPool(), torch.cuda.MemPool()
            assert pool.id != other.id
            with torch.cuda.use_mem_pool(pool):
                inside = bytes_(40 * MiB)
                with torch.cuda.use_mem_pool(other): deeper = bytes_(50 * MiB)
            held = lambda of: sum(segment['total_size'] for segment in of.snapshot())
            assert (held(pool), held(other), torch.cuda.memory_reserved()) == (40 * MiB, 50 * MiB, 120 * MiB)
            del deeper
            with torch.cuda.use_mem_pool(other): again = bytes_(50 * MiB)
            assert held(other) == 50 * MiB, 'what the pool has is taken first'
            with torch.cuda.use_mem_pool(pool): denied('', bytes_, 4 << 30)
            del inside, again, pool, other
            torch.cuda.empty_cache()
            assert torch.cuda.memory_reserved() == 30 * MiB
        """)

    def test_graphs_have_memory_of_their_own(self):
        self.run_program("""
            source = torch.ones(10 * MiB, dtype=torch.uint8).cuda()
            first, second = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
            with torch.cuda.graph(first): one = source.clone()
            before = torch.cuda.memory_reserved()
            with torch.cuda.graph(second, pool=first.pool()): two = one.clone()
            assert torch.cuda.memory_reserved() - before <= 20 * MiB
            source.fill_(0)
            first.replay(); second.replay(); torch.cuda.synchronize()
            assert one.data_ptr() != two.data_ptr()
            third = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(third): bytes_(4 << 30)
            except torch.OutOfMemoryError: pass
            else: raise AssertionError('granted')
            try:
                with torch.cuda.graph(torch.cuda.CUDAGraph()): torch.cuda.synchronize()
            except torch.AcceleratorError as error: assert 'captur' in str(error), error
            else: raise AssertionError('waited for a stream that is recorded')
            del one, two, first, second, third
            gc.collect(); torch.cuda.empty_cache()
            assert torch.cuda.memory_allocated() == 10 * MiB, torch.cuda.memory_allocated()
            bytes_(2 << 30)
        """)

    def test_pinned_memory_is_counted_and_used_again(self):
        self.run_program("""
            bytes_(1), torch.empty(1, pin_memory=True)
            torch._C._host_emptyCache()
            def host(name): return torch.cuda.host_memory_stats()[name]
            before = host('allocated_bytes.current'), host('num_host_alloc')
            pinned = torch.ones(10 * 1024, pin_memory=True)              # 40 KiB: the next power of two
            assert pinned.is_pinned() and (host('allocated_bytes.current') - before[0], host('num_host_alloc') - before[1]) == (64 << 10, 1)
            place = pinned.data_ptr(); del pinned
            assert torch.empty(12 * 1024, pin_memory=True).data_ptr() == place and host('num_host_alloc') - before[1] == 1
            plain, runtime = torch.ones(20), torch.cuda.cudart()
            assert not plain.is_pinned()
            assert runtime.cudaHostRegister(plain.data_ptr(), 80, 0) == 0 and plain.is_pinned()
            assert runtime.cudaHostUnregister(plain.data_ptr()) == 0 and not plain.is_pinned()
            torch.cuda.memory._set_allocator_settings('pinned_use_cuda_host_register:True,pinned_num_register_threads:8')
            assert torch.ones(1 << 24).pin_memory().is_pinned()
        """)

    def test_pools_that_lend_do_not_split_or_belong_to_one_thread(self):
        self.run_program("""
            import threading
            def together(*works):
                threads = [threading.Thread(target=work) for work in works]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
            def inside(pool, size):
                with torch.cuda.use_mem_pool(pool): return bytes_(size)
            plain, whole = torch.cuda.MemPool(), torch.cuda.MemPool(no_split=True)
            kept = [inside(pool, 3 * MiB) for pool in (plain, whole) * 2]
            blocks = lambda pool: [len(segment['blocks']) for segment in pool.snapshot()]
            assert (blocks(plain), blocks(whole)) == ([3], [1, 1]), (blocks(plain), blocks(whole))
            del kept, plain, whole
            empty()
            torch.cuda.set_per_process_memory_fraction(1 / 16)           # 256 MiB
            closed, lends = torch.cuda.MemPool(), torch.cuda.MemPool(use_on_oom=True)
            one, other = inside(closed, 128 * MiB), inside(lends, 128 * MiB)
            place = other.data_ptr()
            denied('', bytes_, 100 * MiB)                                # both are in use
            del one, other
            guest = bytes_(100 * MiB)
            assert guest.data_ptr() == place and torch.cuda.memory_reserved() == 256 * MiB
            denied('', bytes_, 100 * MiB)                                # the other one does not lend
            del guest, closed, lends
            torch.cuda.set_per_process_memory_fraction(1.0)
            empty()
            ids, held, reached, seen = [], [], threading.Event(), threading.Event()
            together(*[lambda: ids.append(torch.cuda.MemPool().id)] * 4)
            assert len(set(ids)) == 4
            def owner():
                pool = torch.cuda.MemPool()
                with torch.cuda.use_mem_pool(pool):
                    mine = bytes_(30 * MiB)
                    reached.set(); seen.wait(60)
                    held.append(sum(segment['total_size'] for segment in pool.snapshot()))
            def stranger():
                reached.wait(60)
                theirs = bytes_(50 * MiB)                                # no pool of this thread
                held.append(sum(segment['total_size'] for segment in torch.cuda.memory_snapshot() if segment['segment_pool_id'] == (0, 0)))
                seen.set()
            together(owner, stranger)
            assert held == [50 * MiB, 30 * MiB], held
        """)

    def test_a_pool_whose_memory_a_library_takes(self):
        """Two functions in C behind a pool: what they take of the runtime is held to the limit, too."""
        source = pathlib.Path(self.folder.name, "taker.c")
        source.write_text(textwrap.dedent("""
            #include <stddef.h>
            int cudaMalloc(void**, size_t), cudaFree(void*);
            int taken, given;
            void* take(size_t size, int device, void* stream) { void* block = 0; return cudaMalloc(&block, size) == 0 ? (++taken, block) : 0; }
            void give(void* block, size_t size, int device, void* stream) { cudaFree(block); ++given; }
        """))
        library = source.with_suffix(".so")
        subprocess.run(["cc", "-w", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
        self.run_program("""
            import ctypes
            allocator = torch.cuda.memory.CUDAPluggableAllocator(%r, 'take', 'give')
            counts = lambda: tuple(ctypes.c_int.in_dll(ctypes.CDLL(%r), name).value for name in ('taken', 'given'))
            free = lambda: torch.cuda.mem_get_info()[0]
            before, pool = free(), torch.cuda.MemPool(allocator.allocator())
            def inside(size):
                with torch.cuda.use_mem_pool(pool): return bytes_(size)
            small, large = inside(1000), inside(300 * MiB)
            outside = bytes_(30 * MiB)
            assert counts() == (2, 0) and before - free() == 332 * MiB, (counts(), before - free())
            torch.cuda.memory._set_allocator_settings('expandable_segments:True')
            expandable = bytes_(30 * MiB)
            assert inside(1000).data_ptr() > 0 and counts() == (2, 0)    # there is room in what was taken
            assert sorted(segment['is_expandable'] for segment in torch.cuda.memory_snapshot()) == [False, False, False, True]
            torch.cuda.memory._set_allocator_settings('expandable_segments:False')
            denied('', inside, 4 << 30)
            del small, pool, allocator
            gc.collect(); torch.cuda.empty_cache()
            assert counts() == (2, 1), counts()                          # the large block lives, and its allocator with it
            del large
            torch.cuda.empty_cache()
            assert counts() == (2, 2), counts()
        """ % (str(library), str(library)))
        self.assertLessEqual(self.truth()["devices"][0]["peak_bytes"], 4 * GiB)

    def test_the_history_names_who_took_it_and_the_environment_sets_a_share(self):
        self.run_program("""
            import ctypes
            count = ctypes.c_int(-1)
            assert ctypes.CDLL('libcuda.so.1').cuDeviceGetCount(ctypes.byref(count)) == 3, 'the import started CUDA'
            record, settings = torch.cuda.memory._record_memory_history, torch.cuda.memory._set_allocator_settings
            assert torch.cuda.get_per_process_memory_fraction() == 0.5
            bytes_(1900 * MiB); empty()
            denied('2.00 GiB allowed', bytes_, 2100 * MiB)
            def taker(): return bytes_(5 * MiB)
            def giver(blocks): blocks.clear()
            for context, taking, giving in ('state', False, False), ('alloc', True, False), ('all', True, True):
                record(context=context, stacks='python', clear_history=True)
                torch.cuda.memory._set_memory_metadata('of ours')
                blocks = [taker()]
                giver(blocks)
                torch.cuda.memory._set_memory_metadata('')
                events = [event for event in torch.cuda.memory._snapshot()['device_traces'][0] if event['action'] != 'snapshot']
                text = json.dumps(events)
                assert ('taker' in text, 'giver' in text) == (taking, giving), context
                assert {event['user_metadata'] for event in events} == {'of ours'}
                record(None)
                empty()
            record(context='all', stacks='python', skip_actions=['free_requested', 'segment_alloc'], clear_history=True)
            taker(); empty()
            actions = [event['action'] for event in torch.cuda.memory._snapshot()['device_traces'][0]]
            assert [action for action in actions if action != 'snapshot'] == ['alloc', 'free_completed', 'segment_free'], actions
            record(None)
            for wrong in ('garbage_collection_threshold:1.2', 'max_split_size_mb:2', 'pinned_num_register_threads:1024', 'release_lock_on_cudamalloc:none'):
                denied('', settings, wrong, kind=ValueError)
            torch.cuda.caching_allocator_enable(False)                   # each block comes from the card and goes back to it
            before = torch.cuda.mem_get_info()[0]
            block = bytes_(100 * MiB)
            assert before - torch.cuda.mem_get_info()[0] == 100 * MiB and torch.cuda.memory_reserved() == 0
            denied('out of memory', bytes_, 5 << 30, kind=torch.AcceleratorError)
            del block
            assert torch.cuda.mem_get_info()[0] == before
        """, PYTORCH_ALLOC_CONF="per_process_memory_fraction:0.5")


class Captures(FrameworkCase):
    """What is taken, kept and copied while a CUDA graph is captured, and when it is launched."""
    prelude = TORCH + CHECKS + textwrap.dedent("""
        Graph, Stream, private = torch.cuda.CUDAGraph, torch.cuda.Stream, torch._C
        def zeros(size): return torch.zeros(size, dtype=torch.uint8, device='cuda')
        def captured(work, **options):
            graph = Graph()
            with torch.cuda.graph(graph, **options): result = work()
            return graph, result
        def held(pool):      # segments, MiB, blocks in use
            segments = [segment for segment in torch.cuda.memory_snapshot() if segment['segment_pool_id'] == pool]
            return (len(segments), sum(segment['total_size'] for segment in segments) / MiB,
                    sum(block['state'] == 'active_allocated' for segment in segments for block in segment['blocks']))
    """)

    def test_what_a_graph_takes_and_what_outlives_it(self):
        self.run_program("""
            def three(size):
                first, second = zeros(size), zeros(size)
                del first
                return [second, zeros(size)]                             # in the place of the first
            for size, segments, taken, left in (1000, 1, 2, 2), (3 * MiB, 1, 20, 20), (12 * MiB, 2, 24, 12):
                graph, kept = captured(lambda: three(size))
                pool = graph.pool()
                for _ in range(2):
                    assert held(pool) == (segments, taken, 2), (size, held(pool))
                    free, total = torch.cuda.mem_get_info()
                    assert total - free == torch.cuda.memory_reserved() + %d
                    graph.replay()
                    torch.cuda.empty_cache()                             # leaves alone what a graph uses
                del graph, kept[0]
                gc.collect(); torch.cuda.empty_cache()
                assert held(pool) == (1, left, 1), (size, held(pool))
                assert kept.pop().cpu().sum() == 0                       # the result outlives its graph
                torch.cuda.empty_cache()
                assert held(pool) == (0, 0, 0) and torch.cuda.memory_reserved() == 0
            def forks():
                side, here = Stream(), zeros(3 * MiB)
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side): there = zeros(3 * MiB)
                torch.cuda.current_stream().wait_stream(side)
                return here, there
            graph, results = captured(forks)
            assert held(graph.pool()) == (2, 40, 2)                      # a segment for each stream, both the graph's
            del graph, results
            empty()
            def reuses():                                                # what a side stream reads is free behind the join
                side, source, sink = Stream(), zeros(1000), zeros(1000)
                place = source.data_ptr()
                side.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(side):
                    copy = source.clone()
                    source.record_stream(side)
                del source
                early = bytes_(1000)
                torch.cuda.current_stream().wait_stream(side)
                sink.zero_()
                return early.data_ptr() == place, bytes_(1000).data_ptr() == place
            torch.cuda.memory._set_allocator_settings('graph_capture_record_stream_reuse:True')
            assert captured(reuses)[1] == (False, True)
            # An earlier state of a pool comes back, and with it the blocks that were in use then.
            pool = torch.cuda.graph_pool_handle()
            graph, kept = captured(lambda: [zeros(1000), zeros(1000)], pool=pool)
            places, state = [block.data_ptr() for block in kept], private._cuda_getCheckpointState(0, pool)
            alive = lambda *blocks: private._cuda_checkPoolLiveAllocations(0, pool, set(blocks))
            assert alive(*places) and not alive(places[0]) and not alive()
            kept.clear()
            assert alive() and held(pool)[2] == 0
            private._cuda_setCheckpointPoolState(0, state, [], [])
            for left in 2, 1, 0:
                assert held(pool)[2] == left
                if left > 0: private._cuda_cudaCachingAllocator_raw_delete(places.pop())
            del graph
            gc.collect(); torch.cuda.empty_cache()
            assert held(pool) == (0, 0, 0)
        """ % CONTEXT)

    def test_copies_and_pinned_memory(self):
        self.run_program("""
            sent, back = torch.arange(1000).pin_memory(), torch.zeros(1000, dtype=torch.long).pin_memory()
            there, twice = torch.zeros(1000, dtype=torch.long).cuda(), torch.zeros(2, 1000, dtype=torch.long).cuda()
            def moves():
                there.copy_(sent, non_blocking=True)
                twice[1].copy_(there)
                twice[0, 500:].zero_()
                back.copy_(twice[1], non_blocking=True)
            graph, _ = captured(moves)
            torch.cuda.synchronize()
            assert back.sum() == there.cpu().sum() == 0                  # nothing is done yet
            for value in 3, 4:
                sent.fill_(value)                                        # what is there at the launch
                twice.copy_(torch.full((2, 1000), 77))
                graph.replay(); torch.cuda.synchronize()
                assert back.tolist() == twice[1].tolist() == [value] * 1000
                assert twice[0].tolist() == [77] * 500 + [0] * 500
            graph.reset()
            with torch.cuda.graph(graph): there.zero_()                  # the same one again
            graph.replay()
            assert there.cpu().sum() == 0
            plain = torch.zeros(1000, dtype=torch.long)
            for copy in (lambda: there.copy_(plain, non_blocking=True), lambda: plain.copy_(there, non_blocking=True)):
                denied('Cannot copy between CPU and CUDA tensors during CUDA graph capture', captured, copy, kind=RuntimeError)
            denied('', captured, lambda: there[0].item(), kind=RuntimeError)
            # Pinned memory that a captured copy reads is the graph's for ever; what no copy used is taken again.
            def pins(used):
                block = torch.zeros(1000, dtype=torch.long).pin_memory()
                if used: there.copy_(block, non_blocking=True)
                else: there.zero_()
                place = block.data_ptr()
                del block
                return place, torch.zeros(1000, dtype=torch.long).pin_memory()
            for registered in False, True:
                torch.cuda.memory._set_allocator_settings(f'pinned_use_cuda_host_register:{registered}')
                for used in False, True:
                    pool = torch.cuda.graph_pool_handle()
                    graph, (place, second) = captured(lambda: pins(used), pool=pool, capture_error_mode='thread_local')
                    assert (second.data_ptr() == place) != used, (registered, used)
                    other, (later, _) = captured(lambda: pins(used), pool=pool, capture_error_mode='thread_local')
                    assert later not in (place, second.data_ptr())       # of another graph in the same pool
                    graph.replay(); other.replay(); torch.cuda.synchronize()
        """)


if __name__ == "__main__":
    unittest.main(verbosity=2)
