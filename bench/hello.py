"""The smallest useful typer application: what `kafkalog --help` is measured against."""

import typer

app = typer.Typer()


@app.command()
def hello(name: str) -> None:
    """Greet NAME."""
    typer.echo(f"Hello {name}")


if __name__ == "__main__":
    app()
