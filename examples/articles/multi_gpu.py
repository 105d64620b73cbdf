"""One strategy over two cards, the first at 30 % and the second at 70 %: each replica is held to its own."""
import ration
import tensorflow as tf

for number, gpu in enumerate(ration.config.list_physical_devices("GPU")):
    ration.config.experimental.set_memory_limit(gpu, 0.3 if number % 2 == 0 else 0.7)
strategy = tf.distribute.MirroredStrategy()


@tf.function
def step():
    return tf.reduce_sum(tf.cast(tf.zeros([256, 1 << 20], tf.uint8)[0, :1], tf.float32))


strategy.run(step)
for number in range(strategy.num_replicas_in_sync):
    taken = []
    try:
        with tf.device(f"/GPU:{number}"):
            while True:
                taken.append(tf.zeros([256, 1 << 20], tf.uint8))
    except tf.errors.ResourceExhaustedError:
        now = ration.workload(number)
        print(f"replica {number}: {len(taken)} blocks of 256 MiB, used {now['used'] >> 20} of {now['limit'] >> 20} MiB, "
              f"peak {now['peak'] >> 20}", flush=True)
