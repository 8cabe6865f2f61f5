"""What the five pieces of a strategy are to each other: subjects, manners, questions, answers and the protocols."""
