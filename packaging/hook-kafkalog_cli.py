"""PyInstaller's view of the package: all modules, the files beside them, and kernels as source files.

Machine code is kept for the contents of the sources, which a module inside the archive does not have.
"""

from PyInstaller.utils.hooks import collect_data_files, collect_submodules

hiddenimports = collect_submodules("kafkalog_cli")
datas = collect_data_files("kafkalog_cli")
module_collection_mode = {"kafkalog_cli.format.kernels": "py"}
