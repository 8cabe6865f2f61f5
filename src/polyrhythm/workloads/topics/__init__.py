"""Topic models of documents: what documents are and where they come from, LightLDA's sampler, and how well topics predict."""
