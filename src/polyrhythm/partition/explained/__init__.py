"""What one rank of a layout holds, computes and sends in a training step, found on tensors without memory."""

from polyrhythm.partition.explained.rank import RankStep as RankStep, forward_flops as forward_flops, rank_step as rank_step
from polyrhythm.partition.explained.subject import Subject as Subject
