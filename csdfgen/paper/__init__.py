"""The figure and tables of paper 002 (Minakova and Stefanov), computed anew beside what is printed."""
