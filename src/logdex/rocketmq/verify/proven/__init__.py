"""What tasks have proven sound, so that the pass over the log steps over it."""
