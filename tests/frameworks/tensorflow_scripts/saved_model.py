# Export a model, load it again and serve one request, in 512 MiB.
import tensorflow as tf

gpu = tf.config.list_physical_devices('GPU')[0]
tf.config.set_logical_device_configuration(gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=512)])


class Scale(tf.Module):
    def __init__(self):
        super().__init__()
        self.factor = tf.Variable(tf.ones([1024, 1024]))

    @tf.function(input_signature=[tf.TensorSpec([None, 1024], tf.float32)])
    def __call__(self, x):
        return {'y': x @ self.factor}


tf.saved_model.save(Scale(), 'exported')
served = tf.saved_model.load('exported').signatures['serving_default']
print(served(tf.zeros([3, 1024]))['y'].shape)
