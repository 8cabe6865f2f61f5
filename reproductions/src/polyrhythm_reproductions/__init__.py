"""Claims of papers, and measurements of them: each reproduction is an experiment with thresholds that were fixed beforehand."""
