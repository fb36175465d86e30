"""The tables and claims of paper 004 (CitiusSynapse, 2021), computed again, and its techniques, measured here."""
