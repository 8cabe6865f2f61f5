"""Deep belief nets: restricted Boltzmann machines, greedy training layer by layer, and fine-tuning up and down."""
