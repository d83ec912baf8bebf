"""Changes of a log directory that survive a crash and can be taken back: locks, journal, manifest, marker."""
