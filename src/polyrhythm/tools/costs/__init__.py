"""What a model's training step costs among workers, by formulas: work and depth, collectives, and partitions."""

from polyrhythm.tools.costs.collective_cost import CollectiveCost as CollectiveCost
from polyrhythm.tools.costs.collective_cost import collective_costs as collective_costs
from polyrhythm.tools.costs.model_cost import ModelCost as ModelCost
from polyrhythm.tools.costs.model_cost import model_cost as model_cost
from polyrhythm.tools.costs.work_depth import WorkDepth as WorkDepth
from polyrhythm.tools.costs.work_depth import training_work_depth as training_work_depth
from polyrhythm.tools.costs.work_depth import work_depth as work_depth

__all__ = ["CollectiveCost", "ModelCost", "WorkDepth", "collective_costs", "model_cost", "training_work_depth", "work_depth"]
