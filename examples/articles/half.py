"""Half of the card, then a quarter, then three quarters, while the program runs. TensorFlow decides at its start how much it
will ever take, so it starts before the limit is lowered; it grows, so that there is something to give back."""
import ration
import tensorflow as tf

for gpu in tf.config.list_physical_devices("GPU"):
    tf.config.experimental.set_memory_growth(gpu, True)


def fits(mib):
    try:
        with tf.device("/GPU:0"):
            tf.zeros([mib, 1 << 20], tf.uint8)
        return True
    except tf.errors.ResourceExhaustedError:
        return False


fits(1)
gpus = ration.config.list_physical_devices("GPU")
for share in (0.5, 0.25, 0.75):
    ration.config.experimental.set_memory_limit(gpus[0], share)
    now = ration.workload()
    sizes = ", ".join(f"{mib} MiB {'fit' if fits(mib) else 'are denied'}" for mib in (3000, 6000, 9000))
    print(f"{share:4.0%}: limit {now['limit'] >> 20} MiB, held {now['used'] >> 20} MiB, {sizes}", flush=True)
