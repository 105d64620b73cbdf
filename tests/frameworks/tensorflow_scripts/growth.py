# Why does TensorFlow take all of my GPU? Let it grow.
import tensorflow as tf

gpus = tf.config.list_physical_devices('GPU')
if gpus:
    try:
        for gpu in gpus:
            tf.config.experimental.set_memory_growth(gpu, True)
        logical_gpus = tf.config.list_logical_devices('GPU')
        print(len(gpus), 'physical GPU,', len(logical_gpus), 'logical GPU')
    except RuntimeError as error:
        print(error)
with tf.device('/GPU:0'):
    batch = tf.zeros([64, 1024, 1024], tf.uint8)
print(batch.shape, batch.device[-5:])
