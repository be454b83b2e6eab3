"""Results of annulus as xarray Datasets, and tables of its sweeps as pandas DataFrames."""
