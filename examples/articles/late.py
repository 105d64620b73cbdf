"""Configured after the first tensor: TensorFlow says what it can no longer do, and the limit of the process still works."""
import ration
import tensorflow as tf

with tf.device("/GPU:0"):
    first = tf.zeros([1])
gpus = tf.config.list_physical_devices("GPU")
for late in (lambda: tf.config.experimental.set_memory_growth(gpus[0], False),
             lambda: tf.config.set_visible_devices([], "GPU"),
             lambda: tf.config.set_logical_device_configuration(gpus[0], [tf.config.LogicalDeviceConfiguration(1024)])):
    try:
        late()
    except RuntimeError as error:
        print("TensorFlow:", error)
ration.limit("1GiB")
try:
    with tf.device("/GPU:0"):
        tf.zeros([1200, 1 << 20], tf.uint8)
except tf.errors.ResourceExhaustedError:
    print(f"ration: 1200 MiB denied by the limit of {ration.workload()['limit'] >> 20} MiB")
