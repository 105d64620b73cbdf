"""Two services on one card of 8 GB, each on a logical device of 3 GB; then TensorFlow as a whole gets less, while it runs."""
import ration
import tensorflow as tf

gpus = tf.config.list_physical_devices("GPU")
tf.config.experimental.set_virtual_device_configuration(
    gpus[0], [tf.config.experimental.VirtualDeviceConfiguration(memory_limit=3072)] * 2)
held = []
for service in ("/GPU:0", "/GPU:1"):
    with tf.device(service):
        held.append(tf.zeros([2800, 1 << 20], tf.uint8))
try:
    with tf.device("/GPU:0"):
        tf.zeros([400, 1 << 20], tf.uint8)
except tf.errors.ResourceExhaustedError:
    print("400 MiB more on /GPU:0: denied by its 3072 MiB")
print(f"held by both: {ration.workload()['used']} bytes")
