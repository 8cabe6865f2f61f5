"""How a sum over a group is made, and how values get round in it."""
