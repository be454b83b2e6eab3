"""Results of annulus as datasets of xarray, and tables of its sweeps as DataFrames of pandas."""
