"""The small files of a store and where everything lies below its root."""
