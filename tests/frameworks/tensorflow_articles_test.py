#!/usr/bin/env python3
"""The articles' scripts, as `examples/articles` has them, on stock TensorFlow: what each prints, and the simulator's own peak
beside it. Run by the Python that has it."""
import re
import subprocess
import unittest

from case import CODE, CONTEXT, SOURCE, FrameworkCase, GiB, MiB


class Articles(FrameworkCase):
    def play(self, name, node="T4:16GiB"):
        """The lines that it prints."""
        done = subprocess.run([str(self.python), str(SOURCE / f"examples/articles/{name}.py")], env=self.inside(node),
                              capture_output=True, text=True, cwd=self.folder.name, timeout=240)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr[-4000:])
        return done.stdout.splitlines()

    def peaks(self, node="T4:16GiB"):
        return [device["peak_bytes"] for device in self.truth(node)["devices"]]

    def test_growth_begins_small(self):
        held = int(re.search(r"(\d+) bytes", self.play("growth")[-1])[1])
        self.assertEqual(held, CONTEXT + CODE + 66 * MiB)      # 2 MiB at first, then what the tensor needs
        self.assertEqual(self.peaks(), [held])

    def test_half_of_the_card_then_a_quarter_then_three_quarters(self):
        self.assertEqual(self.play("half"), [
            " 50%: limit 8192 MiB, held 108 MiB, 3000 MiB fit, 6000 MiB fit, 9000 MiB are denied",
            " 25%: limit 4096 MiB, held 108 MiB, 3000 MiB fit, 6000 MiB are denied, 9000 MiB are denied",
            " 75%: limit 12288 MiB, held 108 MiB, 3000 MiB fit, 6000 MiB fit, 9000 MiB fit"])

    def test_two_services_on_logical_devices(self):
        told = self.play("two_services", "T4:8GiB")
        self.assertEqual(told[0], "400 MiB more on /GPU:0: denied by its 3072 MiB")
        self.assertEqual(self.peaks("T4:8GiB"), [2 * 3072 * MiB + CONTEXT + CODE])
        self.assertEqual(told[1], f"held by both: {2 * 3072 * MiB + CONTEXT + CODE} bytes")

    def test_eight_models_use_three_quarters_of_the_card(self):
        told = re.fullmatch(r"8 models, 19200 MiB of tensors: (\d+)% of the card, (\d+)% held", self.play("four_services", "A30:24GiB")[-1])
        self.assertGreater(int(told[1]), 75)

    def test_a_gan_whose_shares_change_at_epoch_10(self):
        told = [[tuple(map(int, part)) for part in re.findall(r"(\d+) x 512 MiB, (\d+) of (\d+) MiB", line)] for line in self.play("gan")]
        (generator_9, discriminator_9), (generator_10, discriminator_10) = told
        self.assertEqual([limit for _, _, limit in (generator_9, discriminator_9)], [16384 * 4 // 10, 16384 * 6 // 10])
        self.assertEqual([limit for _, _, limit in (generator_10, discriminator_10)], [8192, 8192])
        self.assertEqual([batch for batch, _, _ in (generator_9, generator_10)], [12, 14])
        self.assertEqual([batch for batch, _, _ in (discriminator_9, discriminator_10)], [18, 15])
        self.assertLessEqual(self.peaks()[0], 16 * GiB)

    def test_30_and_70_percent_of_two_cards_under_one_strategy(self):
        node = "T4:16GiB*2"
        used = [tuple(map(int, re.search(r"used (\d+) of (\d+) MiB", line).groups())) for line in self.play("multi_gpu", node)]
        self.assertEqual([limit for _, limit in used], [4914, 11468])
        for (now, limit), peak in zip(used, self.peaks(node)):
            self.assertLessEqual(peak, limit * MiB)
            self.assertGreater(now, limit - 1100)   # TensorFlow leaves 1,050 MiB to the system

    def test_one_call_for_every_environment(self):
        self.assertRegex(self.play("setup")[-1], r"600 MiB more denied at \d+ of 4096 MiB")
        self.assertLessEqual(self.peaks()[0], 4 * GiB)

    def test_configured_after_the_first_tensor(self):
        self.assertEqual(self.play("late"), [
            "TensorFlow: Physical devices cannot be modified after being initialized",
            "TensorFlow: Visible devices cannot be modified after being initialized",
            "TensorFlow: Virtual devices cannot be modified after being initialized",
            "ration: 1200 MiB denied by the limit of 1024 MiB"])
        self.assertLessEqual(self.peaks()[0], GiB)

    def test_a_guard_counts_what_tensorflow_counts(self):
        told = self.play("guard")
        self.assertEqual(told[0], "400 MiB, taken and given back within the block: growth 400 MiB")
        self.assertEqual(told[1], "MemoryError: the block 'augment' took 900 MiB of GPU memory, 400 MiB more than its 500 MiB "
                         "(TensorFlow GPU:0 900 MiB). To allow it: MemoryGuard('900MiB')")

    def test_the_cards_memory_from_code(self):
        told = self.play("monitor")
        self.assertRegex(told[0], rf"Tesla T4 {16 * GiB} \d+")
        self.assertGreater(int(told[0].split()[-1]), 512 * MiB)
        self.assertRegex(told[1], r"GPU 0  Tesla T4  .* used of 16 GiB")
        self.assertRegex(told[2], r"  TensorFlow GPU:0  512 MiB in use, peak 512 MiB")


class Inside(FrameworkCase):
    """TensorFlow under limits of `import ration`, beside what the articles have."""

    def test_tensorflow_was_imported_and_started_first(self):
        told = self.run_inside("""
            import tensorflow as tf, warnings
            tf.zeros([1])
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter('always')
                import ration
            assert 'driver is loaded already' in str(told[0].message)
            try: ration.limit('1GiB')
            except RuntimeError as error: print(error)
        """)
        self.assertIn("ration.reexec()", told)

    def test_imported_but_not_started_is_in_time(self):
        self.run_inside("""
            import tensorflow as tf, ration
            ration.limit('2GiB')
            try:
                with tf.device('/GPU:0'): tf.zeros([2000, 1 << 20], tf.uint8)
            except tf.errors.ResourceExhaustedError: pass
            else: raise AssertionError('granted')
        """)
        self.assertLessEqual(self.truth()["devices"][0]["peak_bytes"], 2 * GiB)

    def test_it_is_lowered_without_an_error_of_tensorflows(self):
        """Also where no region can be given back in time: what is above the limit stays until it is freed."""
        for kept, freed, limit in ((700, 1000, "2GiB"), (1200, 300, "1400MiB"), (64, 1500, "1GiB"), (700, 1000, "768MiB")):
            with self.subTest(kept=kept, freed=freed, limit=limit):
                self.run_inside(f"""
                    import ration, tensorflow as tf
                    from ration import sizes
                    for gpu in tf.config.list_physical_devices('GPU'): tf.config.experimental.set_memory_growth(gpu, True)
                    def take(mib):
                        with tf.device('/GPU:0'): return tf.zeros([mib, 1 << 20], tf.uint8)
                    ration.limit('4GiB')
                    kept, freed = take({kept}), take({freed})
                    del freed
                    before = ration.workload()['used']
                    ration.limit('{limit}')
                    after = ration.workload()
                    assert after['used'] <= before and after['limit'] == sizes.parse('{limit}'), (before, after)
                """)

    def test_the_order_of_imports_makes_no_difference(self):
        program = """
            {0}
            ration.setup_gpu('limit', 2048)
            import tensorflow as tf
            kept = []
            try:
                with tf.device('/GPU:0'):
                    while True: kept.append(tf.zeros([64, 1 << 20], tf.uint8))
            except tf.errors.ResourceExhaustedError: print(len(kept) * 64)
        """
        before, after = (int(self.run_inside(program.format(first))) for first in ("import ration, tensorflow", "import ration"))
        self.assertEqual(before, after)
        self.assertGreaterEqual(before, 1792)

    def test_lowered_it_gives_back_what_no_tensor_uses(self):
        self.run_inside("""
            import ration, tensorflow as tf
            for gpu in tf.config.list_physical_devices('GPU'): tf.config.experimental.set_memory_growth(gpu, True)
            def take(mib):
                with tf.device('/GPU:0'): return tf.zeros([mib, 1 << 20], tf.uint8)
            kept, passing = take(200), [take(100) for _ in range(12)]
            del passing
            assert ration.workload()['used'] > 1700 << 20
            ration.limit('1700MiB')
            assert ration.workload()['used'] <= 1700 << 20, ration.workload()
            assert int(tf.reduce_max(tf.shape(kept))) == 1 << 20
        """)


if __name__ == "__main__":
    unittest.main(verbosity=2)
