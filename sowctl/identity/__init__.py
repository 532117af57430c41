"""Who is who: SOW keys, name hashes, bookmarks."""
