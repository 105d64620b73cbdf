#!/usr/bin/env python3
"""Stock JAX on simulated GPUs and under limits. Run by the Python that has it.

JAX starts its CUDA part only where it sees a device file of NVIDIA's (/dev/nvidia0 and the like); without root there is no
such file here, so the programs answer that one question themselves."""
import textwrap
import unittest

from case import LIMITS, FrameworkCase, GiB, MiB


class Jax(FrameworkCase):
    prelude = ("import json, os\nimport jax._src.hardware_utils as hardware\nhardware.has_visible_nvidia_gpu = lambda: True\n"
               "import jax, jax.numpy as jnp, numpy as np\ndevice = jax.devices()[0]\n")

    def setUp(self):
        super().setUp()
        self.environment["JAX_PLATFORMS"] = "cuda"

    def test_the_device_and_its_share(self):
        kind, limit = self.run_program("print(json.dumps([device.device_kind, device.memory_stats()['bytes_limit']]))")
        self.assertEqual(kind, "Tesla T4")
        self.assertEqual(limit, 3 * GiB)  # three quarters of what it sees

    def test_contents_are_true(self):
        self.run_program("x = jax.device_put(np.arange(1000))\nassert np.asarray(x).tolist() == list(range(1000))")

    def test_two_cards(self):
        """An array in parts on both, and gathered on each; a sum over both ends, and means nothing."""
        self.run_program("""
            from jax.sharding import Mesh, NamedSharding, PartitionSpec
            both = Mesh(np.array(jax.devices()), ('card',))
            parts, whole = NamedSharding(both, PartitionSpec('card')), NamedSharding(both, PartitionSpec())
            array = jax.device_put(np.arange(16.), parts)
            assert [shard.data.shape for shard in array.addressable_shards] == [(8,), (8,)]
            gathered = jax.jit(lambda a: a, out_shardings=whole)(array)
            assert [np.asarray(shard.data).tolist() for shard in gathered.addressable_shards] == [list(range(16))] * 2
            assert jax.jit(jnp.sum, out_shardings=whole)(array).shape == ()
        """, node="T4*2")

    def test_its_share_by_its_variable(self):
        self.assertEqual(self.run_program("print(device.memory_stats()['bytes_limit'])", XLA_PYTHON_CLIENT_MEM_FRACTION="0.5"), 2 * GiB)

    def test_ration_makes_it_grow(self):
        self.run_program("jnp.zeros(1000).block_until_ready()")
        self.assertLess(self.truth()["devices"][0]["peak_bytes"], 400 * MiB)

    def test_preallocation_takes_its_share(self):
        self.run_program("jnp.zeros(1000).block_until_ready()", options=("--framework-hints", "off"))
        self.assertGreater(self.truth()["devices"][0]["peak_bytes"], 2.9 * GiB)

    def test_four_times_the_limit_as_alphafold_asks_for(self):
        """What is beyond the limit stays on the host, and no byte more than the limit is on the device."""
        share = self.run_program("""
            blocks = [jax.device_put(np.full((1 << 30,), each, np.uint8)) for each in range(8)]
            for block in blocks: block.block_until_ready()
            assert [int(np.asarray(block)[-1]) for block in (blocks[0], blocks[-1])] == [0, 7]
            print(device.memory_stats()['bytes_limit'])
        """, options=("--framework-hints", "off"), TF_FORCE_UNIFIED_MEMORY="1", XLA_PYTHON_CLIENT_MEM_FRACTION="4.0")
        self.assertEqual(share, 16 * GiB)
        self.assertEqual(self.truth()["devices"][0]["peak_bytes"], 4 * GiB)

    def test_out_of_memory(self):
        self.run_program("""
            try: jax.device_put(np.zeros((5 << 10, 1 << 20), np.uint8)).block_until_ready()
            except jax.errors.JaxRuntimeError as error: assert 'RESOURCE_EXHAUSTED' in str(error)
            else: raise AssertionError('granted')
            jnp.zeros(1000).block_until_ready()
        """)

    def test_a_small_model_trains_to_its_end(self):
        self.run_program("""
            step = jax.jit(jax.grad(lambda w, x: (jax.nn.relu(x @ w) ** 2).sum()))
            weights = jnp.zeros((8, 4))
            for _ in range(10): weights = weights - 0.1 * step(weights, jnp.ones((16, 8)))
            assert weights.shape == (8, 4)
        """)

    def test_compiled_functions_stay_within_every_limit(self):
        self.compiled_functions_stay_within(LIMITS, """
            def nth(n): jax.jit(lambda a: (jax.nn.relu(a @ a) + n).sum())(jnp.zeros((8 + n, 8 + n))).block_until_ready()
        """, "jax.errors.JaxRuntimeError")

    def test_keras_stays_within_every_limit(self):
        self.environment["KERAS_BACKEND"] = "jax"
        self.compiled_functions_stay_within(LIMITS, """
            import keras
            model = keras.Sequential([keras.layers.Input([32]), keras.layers.Dense(64, activation='relu'), keras.layers.Dense(8)])
            def nth(n): model.predict_on_batch(np.zeros((1 + n, 32), np.float32))
        """, "jax.errors.JaxRuntimeError")


class Profiler(FrameworkCase):
    prelude = Jax.prelude

    def setUp(self):
        super().setUp()
        self.environment["JAX_PLATFORMS"] = "cuda"

    def test_a_profile_has_what_the_device_did(self):
        self.run_program("""
            import glob, gzip
            jax.profiler.start_trace('profile')
            x = jax.device_put(np.ones((512, 512), np.float32))
            np.asarray(jax.jit(lambda a: a @ a + 1)(x))
            jax.profiler.stop_trace()
            file, = glob.glob('profile/**/*.trace.json.gz', recursive=True)
            events = json.load(gzip.open(file))['traceEvents']
            device, = [event['pid'] for event in events if event.get('name') == 'process_name' and event['args']['name'] == '/device:GPU:0']
            done = [event for event in events if event.get('ph') == 'X' and event['pid'] == device]
            there, back = [[event['args']['memcpy_details'] for event in done if event['name'] == name] for name in ('MemcpyH2D', 'MemcpyD2H')]
            assert any(' size:1048576 ' in details for details in there) and any(' size:1048576 ' in details for details in back), done
            assert any('kernel_details' in event['args'] and 'add' in event['name'] for event in done), done
        """)


class FromInside(FrameworkCase):
    """Nobody starts these programs with `ration run`."""
    LIMITED = Jax.prelude.replace("import json, os\n", "import json, os, ration\nration.limit('4GiB')\n", 1)

    def setUp(self):
        super().setUp()
        self.environment["JAX_PLATFORMS"] = "cuda"

    def test_a_limit_set_before_the_import(self):
        self.run_inside(self.LIMITED + textwrap.dedent("""
            assert device.memory_stats()['bytes_limit'] == 3 << 30
            def fits(mib):
                try: jax.device_put(np.zeros((mib, 1 << 20), np.uint8)).block_until_ready()
                except jax.errors.JaxRuntimeError as error:
                    assert 'RESOURCE_EXHAUSTED' in str(error)
                    return False
                return True
            assert fits(1000) and not fits(4000)
        """))
        self.assertLessEqual(self.truth()["devices"][0]["peak_bytes"], 4 * GiB)

    def test_lowered_while_it_runs(self):
        self.run_inside(self.LIMITED + textwrap.dedent("""
            kept = jax.device_put(np.ones((500, 1 << 20), np.uint8)).block_until_ready()
            ration.limit('1GiB')
            try: jax.device_put(np.zeros((1000, 1 << 20), np.uint8)).block_until_ready()
            except jax.errors.JaxRuntimeError: pass
            else: raise AssertionError('granted')
            assert ration.workload()['used'] <= 1 << 30 and int(np.asarray(kept)[-1, -1]) == 1
        """))

    def test_jax_has_started_first(self):
        told = self.run_inside(Jax.prelude + textwrap.dedent("""
            import warnings
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter('always')
                import ration
            assert 'driver is loaded already' in str(told[0].message)
            try: ration.limit('1GiB')
            except RuntimeError as error: print(error)
        """))
        self.assertIn("ration.reexec()", told)


if __name__ == "__main__":
    unittest.main(verbosity=2)
