"""Compiles what this layer renders with."""


def warm_up_rendering() -> None:
    """Compile the kernels, or load them from the cache."""
    from kafkalog_cli.output import dump_compiled, read_text_compiled, record_json_compiled

    dump_compiled.warm_up()
    record_json_compiled.warm_up()
    read_text_compiled.warm_up()
