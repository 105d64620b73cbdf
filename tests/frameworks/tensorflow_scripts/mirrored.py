# Both GPUs of one machine, each at most 1 GiB.
import tensorflow as tf

for gpu in tf.config.list_physical_devices('GPU'):
    tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=1024)])
strategy = tf.distribute.MirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Input([8]), tf.keras.layers.Dense(4)])
    model.compile('sgd', 'mse')
model.fit(tf.zeros([64, 8]), tf.zeros([64, 4]), epochs=1, batch_size=16, verbose=0)
print(strategy.num_replicas_in_sync, 'replicas')
