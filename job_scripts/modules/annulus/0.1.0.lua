-- Environment module of an installed annulus, for Lmod. Copy the folder into a folder DIR of modules (module use DIR).
-- Then edit where annulus is installed (cmake --install ... --prefix), and which modules it needs.
local root = "/opt/annulus/0.1.0"
depends_on("gcc", "openmpi", "hdf5")

help([[Dilated ring attention for HPC clusters: annulus --help, find_package(annulus).]])
whatis("Name: annulus")
whatis("Version: 0.1.0")
whatis("Description: dilated ring attention for HPC clusters")

conflict("annulus")
setenv("ANNULUS", pathJoin(root, "bin/annulus")) -- what the batch scripts start
prepend_path("PATH", pathJoin(root, "bin")) -- man looks beside the folders in PATH, too
prepend_path("CMAKE_PREFIX_PATH", root)
