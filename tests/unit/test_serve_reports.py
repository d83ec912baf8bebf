"""Why `serve` closed connections, as it reports it: of each reason once, of many reasons the newest."""

from kafkalog_cli.ops.move.serve import server as server_module


def test_reports_of_many_reasons_are_forgotten(monkeypatch):
    monkeypatch.setattr(server_module, "_MOST_REASONS", 2)
    notes = []
    closed = server_module._Closed(notes.append, lambda: 0.0)
    for reason in ("a", "a", "b", "a"):
        closed.report(("host", 1), reason)
    assert [note.message[-1] for note in notes] == ["a", "b", "a"]
