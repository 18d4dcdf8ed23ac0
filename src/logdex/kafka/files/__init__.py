"""File names, and the small files of log directories and partitions."""
