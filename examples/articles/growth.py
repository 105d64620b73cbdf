"""Growth on every GPU: a program begins small instead of taking the whole card (the entry of an image for many users)."""
import ration
import tensorflow as tf

for gpu in tf.config.list_physical_devices("GPU"):
    try:
        tf.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError as late:
        print("warning:", late)
with tf.device("/GPU:0"):
    batch = tf.zeros([64, 1 << 20], tf.uint8)
print(f"held for a tensor of 64 MiB: {ration.workload()['used']} bytes")
