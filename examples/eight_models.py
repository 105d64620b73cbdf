"""Eight small models on one 24 GiB card: four slices of 6 GiB with two models each, instead of one model a card."""
import ration.tf as tf

card = tf.config.list_physical_devices("GPU")[0]
tf.config.set_visible_devices(card, "GPU")
tf.config.set_logical_device_configuration(card, [tf.config.LogicalDeviceConfiguration(memory_limit=5700)] * 4)
slices = tf.config.list_logical_devices("GPU")
placed = {f"model {number}": slices[number % len(slices)].name for number in range(8)}
for model, place in placed.items():
    print(model, "->", place)
