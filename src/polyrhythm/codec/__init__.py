"""In which words?"""

from polyrhythm.codec.error_feedback import ErrorFeedback
from polyrhythm.codec.identity import Identity
from polyrhythm.codec.striped import Striped
from polyrhythm.codec.top_k import TopK

MEMBERS = (Identity(), TopK(0.1), TopK(1.0), ErrorFeedback(TopK(0.1)), Striped(Identity()), Striped(ErrorFeedback(TopK(0.1))))
"""One of each kind and of each interesting setting: the laws are tested over this list."""

__all__ = ["MEMBERS", "ErrorFeedback", "Identity", "Striped", "TopK"]
