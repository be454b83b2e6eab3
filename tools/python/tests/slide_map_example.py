"""Draws the maps of docs/slides.md; test_slides.py runs it in a folder with slide_out.h5 and coords.h5."""
import annulus

result = annulus.open_result("slide_out.h5")
coords = annulus.coordinates("coords.h5")
annulus.plots.slide(result, coords, head=3).savefig("head3.png")

tiles = annulus.grid.of(coords)                               # rows and columns of an image of one dot a tile
received = result.received.isel(batch=0).mean("head").values  # (10001,)
image = tiles.image(received[1:])                             # nan where there is no tile
