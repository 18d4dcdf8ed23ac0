"""Records as Arrow columns, decoded and encoded."""
