"""How does a plan become a program? A flat list of steps that any backend can bind, or emit as text."""
