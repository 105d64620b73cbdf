"""A GAN on one card: the generator has 40 % and the discriminator 60 %, from epoch 10 half and half; while it trains."""
import ration
import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
# A logical device for each model, so that TensorFlow keeps their memory apart; how much each may take is ration's to say.
tf.config.set_logical_device_configuration(
    gpus[0], [tf.config.LogicalDeviceConfiguration(memory_limit=ration.workload()["limit"] >> 20)] * 2)


class SharedGPU:
    def __init__(self, gen_ratio=0.4, disc_ratio=0.6):
        self.parts = {"/GPU:0": ration.share("generator", gen_ratio), "/GPU:1": ration.share("discriminator", disc_ratio)}

    def update_ratios(self, epoch):
        if epoch == 10:
            for device, part in self.parts.items():
                part.limit(0.5)
                part.trim(device)


def train(part, device, weights):
    """One step with the largest batch that fits: the model's weights stay, the activations go."""
    with part, tf.device(device):
        if not weights:
            weights.append(tf.range(64 << 20))
        activations = []
        try:
            while len(activations) < 100:
                activations.append(tf.zeros([512, 1 << 20], tf.uint8))
        except tf.errors.ResourceExhaustedError:
            pass
    now = part.info()
    assert now["used"] <= now["limit"], (part.name, now)
    return f"{part.name} {len(activations)} x 512 MiB, {now['used'] >> 20} of {now['limit'] >> 20} MiB"


shared = SharedGPU()
models = {device: [] for device in shared.parts}
for epoch in range(12):
    shared.update_ratios(epoch)
    if epoch in (9, 10):
        print(f"epoch {epoch:2}:", "; ".join(train(part, device, models[device]) for device, part in shared.parts.items()), flush=True)
assert all(int(weights[0][-1]) == (64 << 20) - 1 for weights in models.values())
