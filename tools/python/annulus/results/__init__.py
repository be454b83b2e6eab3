"""Results of annulus, and tables of its sweeps, as xarray and pandas know data."""
