"""File names, and the small files of a log directory and of a partition."""
