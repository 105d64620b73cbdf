# Train one model after another in a loop without the memory growing.
import gc
import tensorflow as tf

tf.keras.mixed_precision.set_global_policy('mixed_float16')
gpu = tf.config.list_physical_devices('GPU')[0]
tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=512)])
used = []
for width in (64, 64, 64):
    model = tf.keras.Sequential([tf.keras.layers.Input([256]), tf.keras.layers.Dense(width), tf.keras.layers.Dense(1, dtype='float32')])
    model.compile('sgd', 'mse', jit_compile=False)
    model.fit(tf.zeros([64, 256]), tf.zeros([64, 1]), batch_size=32, verbose=0)
    del model
    tf.keras.backend.clear_session()
    gc.collect()
    used.append(tf.config.experimental.get_memory_info('GPU:0')['current'])
print('grows' if used[-1] > used[0] + (1 << 20) else 'does not grow')
