"""A guard around a block of code, by what TensorFlow itself counts: 400 MiB are 400 MiB."""
import ration
import tensorflow as tf


def work(mib):
    with tf.device("/GPU:0"):
        tf.zeros([mib, 1 << 20], tf.uint8)


work(3000)  # so that there are large free regions: a chunk that is up to 128 MB larger than its tensor counts whole
with ration.MemoryGuard("500MiB") as guard:
    work(400)
print(f"400 MiB, taken and given back within the block: growth {guard.growth >> 20} MiB")
try:
    with ration.MemoryGuard("500MiB", name="augment"):
        work(900)
except MemoryError as error:
    print("MemoryError:", error)
