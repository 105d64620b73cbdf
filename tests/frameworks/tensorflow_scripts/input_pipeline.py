# tf.data with prefetching to the GPU, and a training loop of my own.
import tensorflow as tf

tf.config.threading.set_inter_op_parallelism_threads(2)
tf.config.threading.set_intra_op_parallelism_threads(2)
gpu = tf.config.list_physical_devices('GPU')[0]
tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=768)])
data = tf.data.Dataset.range(64).map(lambda n: tf.fill([256], tf.cast(n, tf.float32)), num_parallel_calls=tf.data.AUTOTUNE)
data = data.shuffle(64).batch(16).apply(tf.data.experimental.prefetch_to_device('/GPU:0', 2))
weights = tf.Variable(tf.zeros([256, 8]))
steps = 0
for batch in data:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(batch @ weights))
    weights.assign_sub(0.01 * tape.gradient(loss, weights))
    steps += 1
print(steps, 'steps', batch.shape, batch.device[-5:], tf.config.threading.get_inter_op_parallelism_threads())
