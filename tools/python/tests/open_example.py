"""A program of docs/python.md; test_docs.py runs it in the folder of the page's commands."""
import annulus

result = annulus.open_result("result.h5")      # an xarray.Dataset; numbers are read when they are used
result.out.isel(batch=0, sequence=slice(0, 8), head=2)
result.lse.mean("sequence")
result.hop_wait_seconds.sum("hop")             # by rank, in seconds
annulus.settings(result)["attention"]          # the run file
result.attrs["git_commit"], result.attrs["hosts"]
