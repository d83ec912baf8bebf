"""Records to and from other places: exports, imports, clients that fetch, another cluster, copies without secrets."""
