"""The figure and tables of paper 002 (Minakova and Stefanov), computed and compared with what is printed."""
