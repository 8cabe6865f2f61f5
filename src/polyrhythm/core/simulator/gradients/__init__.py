"""How the gradients of virtual workers are computed: one worker after the other, or those of several together."""
