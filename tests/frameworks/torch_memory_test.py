#!/usr/bin/env python3
"""PyTorch's caching allocator on a simulated card and under a limit: what its own tests of device memory ask, in words of ours.
Usage: torch_memory_test.py PYTHON [unittest options]"""
import sys
import textwrap
import unittest

from case import TORCH, FrameworkCase, GiB

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


if __name__ == "__main__":
    FrameworkCase.python = sys.argv.pop(1)
    unittest.main(verbosity=2)
