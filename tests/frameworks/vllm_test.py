"""Stock vLLM on the simulated GPU: a tiny model without weights. Its fraction of the GPU is a fraction of the limit.
Run by the Python that `./dev test frameworks` has made for vLLM."""
import json
import pathlib
import re
import subprocess
import unittest

from case import FrameworkCase, GiB, MiB, RATION

MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "intermediate_size": 512,
         "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 2, "vocab_size": 1000,
         "max_position_embeddings": 2048, "torch_dtype": "float16", "bos_token_id": 1, "eos_token_id": 2}


class VLLM(FrameworkCase):
    # A program of processes: vLLM's engine is spawned, so it needs a file, whose main part the engine does not run.
    PROGRAM = """
import json, sys
from vllm import LLM, SamplingParams

def generated(llm):
    return len(llm.generate([{"prompt_token_ids": [1, 5, 7]}], SamplingParams(max_tokens=4, detokenize=False))[0].outputs[0].token_ids)

if __name__ == "__main__":
    llm = LLM("model", load_format="dummy", skip_tokenizer_init=True, gpu_memory_utilization=0.9, max_model_len=512,
              enforce_eager=True, **json.loads(sys.argv[1]))
    print("SAID", generated(llm), flush=True)
    for line in sys.stdin:
        print("SAID", eval(line, {"llm": llm, "generated": generated}), flush=True)
"""

    def setUp(self):
        super().setUp()
        folder = pathlib.Path(self.folder.name)
        (folder / "model").mkdir()
        (folder / "model/config.json").write_text(json.dumps(MODEL))
        (folder / "serve.py").write_text(self.PROGRAM)
        # The second model runner waits for a value that a kernel computes: generate() never ends.
        self.environment.update(VLLM_USE_V2_MODEL_RUNNER="0", VLLM_NO_USAGE_STATS="1", HF_HUB_OFFLINE="1",
                                VLLM_CACHE_ROOT=str(folder / "cache"), TRITON_CACHE_DIR=str(folder / "triton"))

    def serve(self, name, **options):
        """Starts an instance under 7 GiB; `self.said` waits until it serves."""
        running = subprocess.Popen([RATION, "run", "--sim=T4:16GiB", "--limit", "7GiB", "--name", name, "--", str(self.python), "serve.py",
                                    json.dumps(options)], env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, cwd=self.folder.name)
        running.printed = []
        self.addCleanup(lambda: (running.terminate(), running.wait(), running.stdin.close(), running.stdout.close()))
        return running

    def said(self, running):
        running.printed += self.printed_until(running, "SAID ")
        return running.printed[-1].split()[1]

    def ask(self, running, expression):
        running.stdin.write(expression + "\n")
        running.stdin.flush()
        return self.said(running)

    def bytes_of_each(self):
        """What `ration ps` says each workload uses, after the simulator's own count has agreed on the sum."""
        asked = subprocess.run([RATION, "ps", "--sim=T4:16GiB", "-o", "json"], env=self.environment, check=True, capture_output=True, text=True)
        used = {workload["workload"]: workload["used_bytes"] for workload in json.loads(asked.stdout)["data"]}
        (device,) = self.truth()["devices"]
        self.assertEqual(sum(used.values()), sum(process["bytes"] for process in device["processes"]), (used, device))
        return used

    def test_two_instances_share_a_card_by_their_limits(self):
        instances = {name: self.serve(name) for name in ("one", "two")}
        for name, running in instances.items():
            self.assertEqual(self.said(running), "4", "tokens")
            cache = float(re.search(r"Available KV cache memory: ([0-9.]+) GiB", "".join(running.printed)).group(1))
            self.assertTrue(6.0 <= cache <= 6.3, f"{name}: {cache} GiB of cache, where 0.9 of 7 GiB are 6.3")
        used = self.bytes_of_each()
        self.assertEqual(sorted(used), ["one", "two"])
        for name, held in used.items():
            self.assertTrue(6 * GiB < held <= 7 * GiB, f"{name}: {held / GiB:.2f} GiB")

    def test_its_sleep_mode_gives_its_memory_back(self):
        """It finds libcudart by the path in /proc/self/maps."""
        running = self.serve("asleep", enable_sleep_mode=True)
        self.assertEqual(self.said(running), "4")
        awake = self.bytes_of_each()["asleep"]
        self.assertGreater(awake, 6 * GiB)
        self.ask(running, "llm.sleep(level=1)")
        self.assertLess(self.bytes_of_each()["asleep"], 512 * MiB)
        self.ask(running, "llm.wake_up()")
        self.assertAlmostEqual(self.bytes_of_each()["asleep"], awake, delta=64 * MiB)
        self.assertEqual(self.ask(running, "generated(llm)"), "4")


if __name__ == "__main__":
    unittest.main(verbosity=2)
