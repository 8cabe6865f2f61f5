"""The sparse problems of Hogwild! (Niu, Recht, Ré, Wright, NIPS 2011): every sample's gradient has few rows."""
