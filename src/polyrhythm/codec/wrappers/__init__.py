"""Codecs around other codecs: by tensor, by part, by time, or with messages left out."""
