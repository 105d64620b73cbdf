# A small classifier on images, in 1 GiB.
import tensorflow as tf

gpu = tf.config.list_physical_devices('GPU')[0]
tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=1024)])
model = tf.keras.Sequential([
    tf.keras.layers.Input([16, 16, 3]), tf.keras.layers.Conv2D(8, 3, activation='relu'), tf.keras.layers.MaxPool2D(),
    tf.keras.layers.Flatten(), tf.keras.layers.Dense(10)])
model.compile('adam', tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(tf.random.normal([64, 16, 16, 3]), tf.zeros([64], tf.int32), epochs=2, batch_size=32, verbose=0)
print(len(history.history['loss']), 'epochs,', model.predict(tf.zeros([4, 16, 16, 3]), verbose=0).shape)
