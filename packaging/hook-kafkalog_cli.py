"""PyInstaller's view of the package: all modules, and the files beside them, of which one is the library in C."""

from PyInstaller.utils.hooks import collect_data_files, collect_submodules

hiddenimports = collect_submodules("kafkalog_cli")
datas = collect_data_files("kafkalog_cli")
