"""What dump-log reads and remembers."""
