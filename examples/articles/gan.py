"""A GAN on one card: the generator has 40 % and the discriminator 60 %, from epoch 10 half and half; while it trains."""
import ration
import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
# A logical device for each model, so that TensorFlow keeps their memory apart; how much each may take is ration's to say.
tf.config.set_logical_device_configuration(
    gpus[0], [tf.config.LogicalDeviceConfiguration(memory_limit=ration.workload()["limit"] >> 20)] * 2)


class SharedGPU:
    def __init__(self, gen_ratio=0.4, disc_ratio=0.6):
        self.parts = {"generator": ration.share("generator", gen_ratio), "discriminator": ration.share("discriminator", disc_ratio)}

    def update_ratios(self, epoch):
        if epoch == 10:
            for part in self.parts.values():
                part.limit(0.5)


shared = SharedGPU()
weights = {}


def train(name, device, mib):
    """One step: the model's weights stay, its activations go."""
    with shared.parts[name], tf.device(device):
        if name not in weights:
            weights[name] = tf.zeros([256, 1 << 20], tf.uint8)
        try:
            tf.zeros([mib, 1 << 20], tf.uint8)
            return "fits"
        except tf.errors.ResourceExhaustedError:
            return "denied"


for epoch in range(12):
    shared.update_ratios(epoch)
    if epoch in (0, 9, 10, 11):
        told = [f"{name} {train(name, f'/GPU:{number}', mib)}, {part.info()['used'] >> 20} of {part.info()['limit'] >> 20} MiB"
                for number, (name, part, mib) in enumerate(
                    (name, part, 1400) for name, part in shared.parts.items())]
        print(f"epoch {epoch:2}: " + "; ".join(told), flush=True)
    for part in shared.parts.values():
        assert part.info()["used"] <= part.info()["limit"]
