"""Files and modules that define a training function, and the settings that it takes."""
