"""Fitting: objective, coordinates, starts, solvers, engine, and the fit itself."""
