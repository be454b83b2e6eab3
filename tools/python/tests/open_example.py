"""What docs/python.md shows; test_docs.py runs it in a folder of its own."""
import annulus

result = annulus.open_result("result.h5")      # an xarray.Dataset; numbers are read when they are used
result.out.isel(batch=0, sequence=slice(0, 8), head=2)
result.lse.mean("sequence")
result.hop_wait_seconds.sum("hop")             # by rank, in seconds
annulus.settings(result)["attention"]          # the run file
result.attrs["git_commit"], result.attrs["hosts"]
