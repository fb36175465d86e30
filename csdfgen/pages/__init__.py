"""Pages to look at: what a plan does with memory and time, as HTML that needs nothing from outside."""
