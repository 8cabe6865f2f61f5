"""Plans of models that are too large to try: smaller versions of them train, and laws carry what these show to the true size."""
