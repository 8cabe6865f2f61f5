"""The files of pages: HTML, styles and scripts that are written by hand, and copied beside the model."""
