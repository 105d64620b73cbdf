"""What a limit costs PyTorch: the same work by two processes that take turns, one of them under a limit."""
import importlib.util
import statistics
import time

from . import GIB, Finding, NotPossible, experiment, simulated
from .actor import Actor
from .driver import total

WIDTH, HEADS, LAYERS, PROMPT, NEW = 1024, 16, 12, 512, 32


def decoder(torch):
    """A transformer as language models are: 12 layers, 150 million parameters; its cache of keys and values grows by concatenation."""

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.before, self.after = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
            self.attend, self.out = torch.nn.Linear(WIDTH, 3 * WIDTH), torch.nn.Linear(WIDTH, WIDTH)
            self.think = torch.nn.Sequential(torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH))

        def forward(self, x, cache):
            batch, length, _ = x.shape
            query, key, value = self.attend(self.before(x)).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            if cache is not None:
                if cache:
                    key, value = torch.cat([cache[0], key], 2), torch.cat([cache[1], value], 2)
                cache[:] = [key, value]
            seen = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=length > 1)
            x = x + self.out(seen.transpose(1, 2).reshape(batch, length, WIDTH))
            return x + self.think(self.after(x))

    return torch.nn.ModuleList(Layer() for _ in range(LAYERS)).cuda()


def works(torch):
    """The kinds of work: `name: (function, how many times in a turn)`."""
    layers = decoder(torch)
    optimiser = torch.optim.AdamW(layers.parameters(), fused=True)
    batch, prompt, one = torch.randn(32, PROMPT, WIDTH, device="cuda"), torch.randn(16, PROMPT, WIDTH, device="cuda"), torch.randn(16, 1, WIDTH, device="cuda")

    def forward(x, caches=(None,) * LAYERS):
        for layer, cache in zip(layers, caches):
            x = layer(x, cache)
        return x

    def step():
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16):
            loss = forward(batch).float().square().mean()
        loss.backward()
        optimiser.step()

    def first_token():
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            caches = [[] for _ in range(LAYERS)]
            forward(prompt, caches)[0, -1, 0].item()
        return caches

    def tokens():
        caches = first_token()
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            for _ in range(NEW):
                forward(one, caches)[0, 0, 0].item()

    def churn():
        """Through PyTorch's allocator to the driver, and back."""
        blocks = [torch.empty((number % 7 + 1) << 22, dtype=torch.uint8, device="cuda") for number in range(32)]
        del blocks
        torch.cuda.empty_cache()

    def small():
        """Small tensors, which the allocator's cache has."""
        for number in range(500):
            torch.empty(number % 64 + 1, device="cuda")

    return {"training step": (step, 4), "first token": (first_token, 10), "32 tokens": (tokens, 1), "driver allocations": (churn, 15), "cached allocations": (small, 40)}


def prepare(gpu):
    import torch
    gpu.synchronise, gpu.works = torch.cuda.synchronize, works(torch)
    for function, _ in gpu.works.values():
        for _ in range(3):
            function()
    return {name: count for name, (_, count) in gpu.works.items()}


def turn(gpu, name):
    """Seconds of one turn of that work."""
    function, count = gpu.works[name]
    function()
    gpu.synchronise()
    start = time.perf_counter()
    for _ in range(count):
        function()
    gpu.synchronise()
    return time.perf_counter() - start


@experiment(28, "PyTorch under a limit beside PyTorch without one, in turns: throughput", "0.998 or more of it", 150)
def throughput():
    if simulated():
        raise NotPossible("the simulator runs no kernels")
    if importlib.util.find_spec("torch") is None:
        raise NotPossible("PyTorch is not installed")
    with Actor() as bare, Actor(limit=min(16 * GIB, total() * 9 // 10)) as held:
        for actor in (bare, held):
            actor.tell("throughput.prepare")
        counts = bare.answer()
        held.answer()
        said, worst = [], 1.0
        for name, count in counts.items():
            ratios, took = [], {bare.name: [], held.name: []}
            end = time.monotonic() + 15
            while len(ratios) < 6 or (len(ratios) < 100 and time.monotonic() < end):
                order = (bare, held) if len(ratios) % 2 else (held, bare)
                for actor in order:
                    took[actor.name].append(actor.ask("throughput.turn", name))
                ratios.append(took[bare.name][-1] / took[held.name][-1])
            ratio, spread = statistics.median(ratios), statistics.stdev(ratios) / len(ratios) ** 0.5
            best = min(took[bare.name]) / min(took[held.name])
            said.append(f"{name} {ratio:.4f} (± {2 * spread:.4f}; of the quickest turns {best:.4f}; {statistics.median(took[bare.name]) / count * 1000:.3f} ms)")
            worst = min(worst, ratio)
    return Finding("; ".join(said), worst >= 0.998)
