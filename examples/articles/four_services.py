"""A card of 24 GB for four services, each on a logical device of 6 GB less what a context costs; two light models in each."""
import ration
import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
tf.config.set_logical_device_configuration(gpus[0], [tf.config.LogicalDeviceConfiguration(memory_limit=5800)] * 4)
models = []
for service in tf.config.list_logical_devices("GPU"):
    with tf.device(service.name):
        for _ in range(2):
            models.append([tf.zeros([120, 1 << 20], tf.uint8) for _ in range(20)])  # 20 layers
now = ration.workload()
tensors = sum(int(tf.size(layer)) for layers in models for layer in layers)
print(f"{len(models)} models, {tensors >> 20} MiB of tensors: {tensors / now['total']:.0%} of the card, {now['used'] / now['total']:.0%} held")
